"""What may be built from a file: fairseq evaluates some options as Python, so a checkpoint without
any pickled code can still run some. Everything that builds from a file asks here first."""

import ast
import enum
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints.configuration import plain

MODELS = ("transformer", "gated_transformer", "pruned_transformer")
TASKS = ("translation", "translation_headprune")
CRITERIONS = (
    "adaptive_loss",
    "cross_entropy",
    "label_smoothed_cross_entropy",
    "label_smoothed_cross_entropy_l0",
    "label_smoothed_cross_entropy_with_rdrop",
)
EVALUATED = frozenset(
    "adam_betas adamax_betas adafactor_eps lamb_betas adaptive_softmax_cutoff adaptive_input_cutoff "
    "character_filters conv_feature_layers left_pad_source left_pad_target wer_args xformers_att_config "
    "encoder_xformers_att_config decoder_xformers_att_config".split()
)
"""Options that fairseq hands to Python's eval, of whatever type: they must be literals."""
LONGEST_LITERAL = 1000
_REFERENCE = re.compile(r"\$\{[\w.]+\}|\?\?\?")


def check_configuration(state: dict[str, Any], path: str = "the checkpoint") -> None:
    """UserError, by name, when something outside the translation Transformer would be built from the
    configuration, or an option has a type that its dataclass does not have."""
    for key in ("cfg", "args"):
        if state.get(key) is None:
            continue
        try:
            config = plain(state[key])
        except Exception as error:  # omegaconf resolves what the file says, and fails in many ways
            reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
            raise UserError(f"{path} has a configuration that cannot be read: {reason}") from None
        if isinstance(config, dict):
            _check(config if key == "cfg" else _sections(config), path)


def _sections(args: dict[str, Any]) -> dict[str, Any]:
    """Options of the time before sections: one flat namespace, which every section reads."""
    names = {
        "model": "arch",
        "task": "task",
        "criterion": "criterion",
        "optimizer": "optimizer",
        "tokenizer": "tokenizer",
        "bpe": "bpe",
    }
    return {
        section: {**args, "_name": args.get(name), "arch": args.get("arch")}
        for section, name in names.items()
    }


def _check(config: dict[str, Any], path: str) -> None:
    for name, value in _options(config):
        if name in EVALUATED and isinstance(value, str) and value and not _is_literal(value):
            raise UserError(
                f"{path} was not loaded: fairseq would run the text of its option {name} as a program"
            )
    for section in ("model", "task", "criterion", "optimizer", "tokenizer", "bpe"):
        options = config.get(section)
        if isinstance(options, str):
            options = {"_name": options}
        if not isinstance(options, dict):
            continue
        _check_name(section, options, path)
        _check_types(section, options, path)


def _options(value: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of every option at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name), inner
            yield from _options(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _options(inner)


def _check_name(section: str, options: dict[str, Any], path: str) -> None:
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    name = options.get("_name")
    if section == "model":
        if not name and not options.get("arch") and len(options) == 1:
            name = next(iter(options))  # fairseq takes a lone entry for the name
        for arch in {str(n) for n in (name, options.get("arch")) if n}:
            if ARCH_MODEL_NAME_REGISTRY.get(arch, arch) not in MODELS:
                raise UserError(
                    f"{path} is of the architecture '{arch}', which is outside the encoder-decoder "
                    "Transformers that can be used here: " + ", ".join(MODELS)
                )
    # a name that fairseq does not know is never built
    elif section == "task" and name in TASK_REGISTRY and name not in TASKS:
        raise UserError(f"{path} is for the task '{name}', which is not one of {', '.join(TASKS)}")
    elif section == "criterion" and name in CRITERION_REGISTRY and name not in CRITERIONS:
        raise UserError(f"{path} names the criterion '{name}', which is not one of {', '.join(CRITERIONS)}")


def _dataclass_of(section: str, name: str | None):
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    if section == "model":
        from fairseq_headprune.models.config import GatedTransformerConfig

        return GatedTransformerConfig
    if section == "task":
        return TASK_DATACLASS_REGISTRY.get(name)
    return REGISTRIES[section]["dataclass_registry"].get(name)


def _check_types(section: str, options: dict[str, Any], path: str) -> None:
    dataclass = _dataclass_of(section, options.get("_name"))
    known = dataclass.__dataclass_fields__ if dataclass else {}
    for name, field in known.items():
        if name in options and not fits(options[name], field.type, name):
            kind = getattr(field.type, "__name__", str(field.type)).replace("typing.", "")
            raise UserError(
                f"{path} was not loaded: its {section} option {name} is {_short(options[name])}, and "
                f"fairseq has {kind} there"
            )


def fits(value: Any, kind: Any, name: str = "") -> bool:
    """Whether a plain value is of a dataclass field's type, as any version of fairseq stored it:
    None for unset, a lone number for a list, the folder of data in a list, lists and switches as text."""
    if value is None or kind is Any or (isinstance(value, str) and _REFERENCE.fullmatch(value)):
        return True
    origin = get_origin(kind)
    if origin is Union:
        return any(fits(value, k, name) for k in get_args(kind) if k is not type(None))
    if inspect.isclass(kind) and issubclass(kind, enum.Enum):
        return isinstance(value, (str, int, float))
    if is_dataclass(kind):
        return isinstance(value, dict)
    if origin in (list, list, tuple):
        value = _literal(value)
        inner = (get_args(kind) or (Any,))[0]
        return all(fits(v, inner) for v in (value if isinstance(value, (list, tuple)) else [value]))
    if kind is str:
        if name == "data" and isinstance(value, list):  # before 2020
            return all(isinstance(v, str) for v in value)
        return isinstance(value, (str, int, float))
    if kind is bool:
        return isinstance(_literal(value), (bool, int))
    if kind is int:
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind is float:
        return isinstance(value, (int, float))
    return not isinstance(value, str)


def _literal(value: Any) -> Any:
    """The value of a text like ``[1, 2]`` or ``True``, which old fairseq stored; others as they are."""
    return ast.literal_eval(value) if isinstance(value, str) and _is_literal(value) else value


def _is_literal(text: str) -> bool:
    if len(text) > LONGEST_LITERAL:
        return False
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return bool(_REFERENCE.fullmatch(text))
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
