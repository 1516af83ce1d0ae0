"""Where heads live in an encoder-decoder Transformer of fairseq: the one place that knows.

Names and attributes only, so neither torch nor fairseq is loaded. Everything that finds a kind of
attention in a model, in a state dict or among options asks here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where one kind of attention is."""

    stack: str
    """``encoder`` or ``decoder``: attribute of the model, first part of parameter names and options."""
    attribute: str
    """Attribute of a layer."""

    def prefix(self, layer: int) -> str:
        """What the names of a layer's parameters start with, without the dot."""
        return f"{self.stack}.layers.{layer}.{self.attribute}"

    @property
    def heads_option(self) -> str:
        """The model's option that says how many heads a layer has before any is removed."""
        return f"{self.stack}_attention_heads"

    def layers(self, model: Any) -> Sequence[Any]:
        """The layers of a model that may have this kind."""
        return getattr(model, self.stack).layers

    def of(self, layer: Any) -> Any:
        """The attention module of a layer, None where there is none; AttributeError for other layers."""
        return getattr(layer, self.attribute)


PLACES = {
    "enc_self": Place("encoder", "self_attn"),
    "dec_self": Place("decoder", "self_attn"),
    "dec_enc": Place("decoder", "encoder_attn"),
}
"""Key of each kind of attention -> its place, in the order used everywhere."""

PROJECTIONS = {"q_proj": 0, "k_proj": 0, "v_proj": 0, "out_proj": 1}
"""Linear maps of an attention module -> the dimension of their weight that heads lie along. Biases of
those with 0 lie along heads too; that of the last belongs to no head."""


def belongs_to_gates(name: str) -> bool:
    """Whether a model without gates lacks the parameter or buffer of this name."""
    # l0_multiplier: the name of learned_target.multiplier until version 0.1
    return ".gates." in name or name in ("learned_target.multiplier", "l0_multiplier")


def head_rows(stored: Sequence[int], wanted: Sequence[int], head_dim: int) -> list[int]:
    """Rows (columns of ``out_proj``) of the heads ``wanted`` in a projection that stores ``stored``.

    Both are original numbers; ValueError for a head that is not stored.
    """
    blocks = [list(stored).index(h) for h in wanted]
    return [b * head_dim + i for b in blocks for i in range(head_dim)]


def head_parameters(key: str, layer: int) -> Iterator[tuple[str, int]]:
    """(name, dimension that heads lie along) of the parameters of one attention module."""
    prefix = PLACES[key].prefix(layer)
    for part, dim in PROJECTIONS.items():
        yield f"{prefix}.{part}.weight", dim
        if dim == 0:
            yield f"{prefix}.{part}.bias", 0
