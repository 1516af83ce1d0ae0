"""What a pickle would call, found without running it: for saying why a file was not read, not for
deciding whether to."""

import itertools
import pickletools
import zipfile
from collections.abc import Iterator
from typing import IO

import torch

MOST = 1_000_000
"""Instructions looked at; what is not found by then stays unknown."""
PICKLES = 5
"""A file of torch's old format begins with so many, one after the other."""


def foreign_name(path) -> str | None:
    """The first class or function named in a checkpoint that torch's weights_only does not allow, as
    ``module.name``; None when there is none, or the file cannot be looked into."""
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return _first_foreign(file)
            with zipfile.ZipFile(file) as archive:
                name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
                with archive.open(name) as inner:
                    return _first_foreign(inner)
    except Exception:  # whatever it is, it says nothing
        return None


def _first_foreign(file: IO[bytes]) -> str | None:
    allowed = _allowed()
    for _ in range(PICKLES):
        try:
            for name in _names(file):
                if name not in allowed:
                    return name
        except Exception:  # cut off, or no pickle: pickletools fails in many ways
            return None
    return None


def _names(file: IO[bytes]) -> Iterator[str]:
    """``module.name`` of everything that one pickle would look up."""
    strings: list[str] = []
    for op, argument, _ in itertools.islice(pickletools.genops(file), MOST):
        if op.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".", 1)
        elif op.name == "STACK_GLOBAL":
            yield ".".join(strings[-2:])
        elif op.name.startswith("EXT"):
            yield f"extension {argument}"
        elif isinstance(argument, str):
            strings = [*strings[-1:], argument]


def _allowed() -> frozenset[str]:
    try:
        from torch import _weights_only_unpickler as unpickler

        return frozenset({**unpickler._get_allowed_globals(), **unpickler._get_user_allowed_globals()})
    except (ImportError, AttributeError):  # another torch: then at least its own names and fairseq's
        added: list = getattr(torch.serialization, "get_safe_globals", list)()
        return frozenset(f"{c.__module__}.{c.__qualname__}" for c in added if isinstance(c, type))
