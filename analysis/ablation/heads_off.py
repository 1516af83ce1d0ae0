"""Switching heads off at test time: the intervention, as a change to a loaded model.

A head that is off adds nothing to the sum that W_O makes of the heads, which is the same as setting
its output to zero; the bias of W_O stays and the other heads are not rescaled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from torch import nn

from fairseq_headprune.analysis.ablation.replaced import Replaced
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.nn.attention import HeadAttention
from fairseq_headprune.nn.projections import attention_modules, open_layout
from fairseq_headprune.recording.maps import like_stock
from fairseq_headprune.units.anatomy import PLACES
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, HeadLayout


class Intervention(NamedTuple):
    """Heads to switch off, and what the question is."""

    kind: str
    """"without": one head off. "alone": every other head of its layer and type off.
    "layer": every head of a layer and type off."""
    type: str
    layer: int
    head: int
    """-1 for "layer"."""
    off: Sequence[Head]


def interventions(layout: HeadLayout, types: Sequence[str] = ATTENTION_TYPES) -> list[Intervention]:
    """Every head off, every head alone, every layer off; heads of ``layout``, of ``types`` only.

    In a layer with one head, "without" is "layer" and "alone" changes nothing: only "without" is
    listed. A layer without heads is left out.
    """
    found = []
    for type in types:
        for layer, heads in enumerate(layout[type]):
            every = [Head(type, layer, head) for head in heads]
            for head in every:
                found.append(Intervention("without", *head, [head]))
                if len(every) > 1:
                    others = [other for other in every if other != head]
                    found.append(Intervention("alone", *head, others))
            if len(every) > 1:
                found.append(Intervention("layer", type, layer, -1, every))
    return found


def with_heads(module: nn.Module, heads: Sequence[int]) -> HeadAttention:
    """A copy of an attention module, stock or ours, that has only the heads with these numbers."""
    twin = module.without_gates() if isinstance(module, HeadAttention) else like_stock(module)
    twin.keep_heads(heads)
    return twin


@contextmanager
def heads_off(
    model: nn.Module, off: Iterable[Head], instead: Mapping[Head, int | None] | None = None
) -> Iterator[nn.Module]:
    """The model without the heads ``off`` while open, then as it was. Gates act as in evaluation.

    ``instead``: they stay, with the attention that `Replaced` gives them, by head. UserError for a head that
    the model does not have.
    """
    layout = open_layout(model)
    off = set(off)
    for head in off:
        if not 0 <= head.layer < len(layout[head.type]) or head not in layout:
            raise UserError(f"the model has no head {head}: it was removed or never existed")
    modules = attention_modules(model)
    replaced = []
    try:
        for type, layer in sorted({(head.type, head.layer) for head in off}):
            kept = [h for h in layout[type][layer] if Head(type, layer, h) not in off]
            place = PLACES[type]
            owner, name = place.layers(model)[layer], place.attribute
            replaced.append((owner, name, modules[type][layer]))
            module = modules[type][layer]
            twin: nn.Module = with_heads(module, kept)
            if instead is not None:
                gone = {h for h in layout[type][layer] if h not in kept}
                twin = Replaced(module, twin, {h: instead[Head(type, layer, h)] for h in sorted(gone)})
            setattr(owner, name, twin)
        yield model
    finally:
        for owner, name, module in replaced:
            setattr(owner, name, module)
