"""Which options make a model the function that it is, as a checkpoint has them and as they are asked for.

Pure decisions on plain options, flat and named as the flags.
"""

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairseq_headprune.models.config import GatedTransformerConfig, StockTransformerOptions

OURS = ("decoder_self", "decoder_start", "position_encoding", "output_bias", "no_unk")
"""Options that imported models have and fairseq's Transformer does not."""

_STACKS = ("attention_heads", "layers", "embed_dim", "ffn_embed_dim", "normalize_before", "learned_pos")

FUNCTION = (
    *(f"encoder_{name}" for name in _STACKS),
    *(f"decoder_{name}" for name in _STACKS),
    "decoder_input_dim",
    "decoder_output_dim",
    "activation_fn",
    "no_scale_embedding",
    "layernorm_embedding",
    "no_token_positional_embeddings",
    "no_decoder_final_norm",
    "share_all_embeddings",
    "share_decoder_input_output_embed",
    "merge_src_tgt_embed",
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "adaptive_softmax_factor",
    "tie_adaptive_weights",
    "tie_adaptive_proj",
    *OURS,
)
"""Options under which the same weights compute something else, or have other shapes."""

GATES = ("gate_stretch_low", "gate_stretch_high")
"""As above, where there are gates: what an open gate multiplies with."""

_DERIVED = {
    "decoder_embed_dim": "encoder_embed_dim",
    "decoder_ffn_embed_dim": "encoder_ffn_embed_dim",
    "decoder_input_dim": "decoder_embed_dim",
    "decoder_output_dim": "decoder_embed_dim",
}
"""Options that are as another one unless they are given."""


@dataclass
class Agreement:
    """What becomes of options that differ between a checkpoint and what is asked for.

    ``take``: option -> the checkpoint's value, for those that nobody gave;
    ``refuse``: option -> (the checkpoint's value, the one that was given).
    """

    take: dict[str, Any] = field(default_factory=dict)
    refuse: dict[str, tuple[Any, Any]] = field(default_factory=dict)


def agree(there: Mapping[str, Any], asked: Mapping[str, Any], given: Collection[str] = ()) -> Agreement:
    """Decide about every option that makes the function: ``there`` are those of the checkpoint, ``asked``
    those of the run, ``given`` the names that are on its command line.

    A configuration does not say who set a value, so one that is not fairseq's default counts as given too.
    """
    result = Agreement()
    for name in _compared(there):
        value, wanted = _value(there, name), _value(asked, name)
        if same(value, wanted):
            continue
        if name in given or not same(wanted, _default(asked, name)):
            result.refuse[name] = (value, wanted)
        else:
            result.take[name] = value
    return result


def _compared(there: Mapping[str, Any]) -> list[str]:
    learned = [
        s for s, stack in (("source", "encoder"), ("target", "decoder")) if there.get(f"{stack}_learned_pos")
    ]
    gates = GATES if any(there.get(name) is not None for name in GATES) else ()
    return [*FUNCTION, *(f"max_{side}_positions" for side in learned), *gates]


def _value(options: Mapping[str, Any], name: str) -> Any:
    """The value in force: old checkpoints lack later options, and some options imply others."""
    if name == "share_decoder_input_output_embed" and options.get("share_all_embeddings"):
        return True
    value = options.get(name)
    return _default(options, name) if value is None else value


def _default(options: Mapping[str, Any], name: str) -> Any:
    if name in _DERIVED:
        return _value(options, _DERIVED[name])
    if name == "share_decoder_input_output_embed" and options.get("share_all_embeddings"):
        return True
    return GatedTransformerConfig.__dataclass_fields__[name].default


def same(value: Any, other: Any) -> bool:
    """Whether two values of an option mean the same, whatever type a version of fairseq stored."""
    value, other = (_plain(v) for v in (value, other))
    if isinstance(value, bool) or isinstance(other, bool):
        return bool(value) == bool(other)
    return value == other


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return value
    return list(value) if isinstance(value, (list, tuple)) else value


def spell(name: str, value: Any) -> str:
    """An option as on a command line; a switch that is off in words."""
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return flag if value else f"no {flag}"
    return f"{flag} {','.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"


def flags(options: Mapping[str, Any]) -> list[str]:
    """The flags that give our architectures the options of a checkpoint, dropout and the like included;
    options at fairseq's default are left out."""
    words: list[str] = []
    for name in (*StockTransformerOptions.__dataclass_fields__, *OURS):
        value = options.get(name)
        if name.startswith("_") or name.endswith("layers_to_keep") or value is None:
            continue
        default = _default(options, name)
        if isinstance(default, bool):
            value = bool(value)
        if not same(value, default):
            words += spell(name, value).split(" ", 1)
    return words


def typed_options(words: Collection[str]) -> set[str]:
    """Names of the options on a command line of fairseq-train (``--encoder-layers 3``) or of Hydra
    (``model.encoder_layers=3``)."""
    names = set()
    for word in words:
        name = str(word).split("=")[0]
        if name.startswith("--"):
            names.add(name[2:].replace("-", "_"))
        elif name.lstrip("+").startswith("model."):
            names.add(name.lstrip("+")[len("model.") :])
    return names
