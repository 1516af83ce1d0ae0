"""YAML and JSON files as plain values: nothing is executed, and nothing is guessed.

YAML 1.1 reads the words ``on``, ``no``, ``null`` and ``1_000`` of a vocabulary as something else; here every
scalar stays the text that it is, and the option tables convert what they use.
"""

import json
from typing import Any

from fairseq_headprune.base.errors import UserError


def parse(text: str, name: str) -> dict[str, Any]:
    """The mapping in ``text``: dictionaries, lists and str. UserError, naming ``name``, when it is no
    mapping."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # both build str, list and dict only
    try:
        value = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = "" if line is None else f" (line {line + 1})"
        raise UserError(f"{name} is no YAML{where}: give the file as the other program wrote it") from None
    if not isinstance(value, dict):
        raise UserError(f"{name} is not a YAML file of 'name: value' lines")
    return value


def read(path) -> dict[str, Any]:
    """`parse` of a file."""
    return parse(read_text(path), str(path))


def read_text(path) -> str:
    """A UTF-8 file's text, or UserError."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {path}: it is no UTF-8 text") from None


def read_json(path, advice: str) -> Any:
    """A JSON file's content; UserError, with the ``advice``, when it is none, or the file cannot be read."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{path} is no JSON: {advice}") from None


def is_true(value: Any) -> bool:
    """A flag's text."""
    return str(value).strip().lower() in ("true", "yes", "on", "1")


def as_list(value: Any) -> list[str]:
    """A list option: ``[]``, a list, one value, or nothing."""
    if value in (None, "", "[]", "~", "null"):
        return []
    return list(value) if isinstance(value, list) else [value]
