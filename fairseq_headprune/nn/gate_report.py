"""What the gates of a model say: their penalty and the counts that are logged and printed."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_headprune.nn.projections import attention_modules
from fairseq_headprune.units import gates
from fairseq_headprune.units.gates import HeadGates
from fairseq_headprune.units.layout import ATTENTION_TYPES

DECIDED = 0.75
"""A gate counts as open, or closed, when P(g = 1), or P(g = 0), is at least this."""


def head_gates(model: nn.Module) -> dict[str, list[HeadGates]]:
    """The gates of a model per attention type, lowest layer first; types without gates are absent."""
    if not any(isinstance(m, HeadGates) for m in model.modules()):
        return {}
    modules = attention_modules(model)
    found = {
        t: [m.gates for m in modules[t] if getattr(m, "gates", None) is not None] for t in ATTENTION_TYPES
    }
    return {t: layers for t, layers in found.items() if layers}


def all_log_a(layers: list[HeadGates]) -> Tensor:
    """log alpha of all heads of these layers, one after the other, differentiable."""
    return torch.cat([layer.log_a for layer in layers])


def expected_open(layers: list[HeadGates], log_a: Tensor | None = None) -> Tensor:
    """Sum of P(g != 0) over all heads of these layers: L_C of section 6.1, differentiable.

    ``log_a`` is `all_log_a` of them, for who has it already.
    """
    log_a = all_log_a(layers) if log_a is None else log_a
    return gates.p_open(log_a, layers[0].temperature, layers[0].stretch).sum()


@dataclass(frozen=True)
class GateCounts:
    """Numbers of gates: ``acting`` is what evaluation uses, the other three add up to all gates."""

    acting: int
    open: int
    closed: int
    undecided: int


def count(log_a: Tensor, temperature: float, stretch, threshold: float = 0.0) -> GateCounts:
    """Counts for gates with these log alphas (any shape), held against ``threshold`` in evaluation."""
    is_open, is_closed = gates.decided(log_a, DECIDED, temperature, stretch)
    n_open, n_closed = int(is_open.sum()), int(is_closed.sum())
    acting = int(gates.hard(log_a - threshold, temperature, stretch).sum())
    return GateCounts(acting, n_open, n_closed, log_a.numel() - n_open - n_closed)


@torch.no_grad()
def count_layers(layers: list[HeadGates], log_a: Tensor | None = None) -> GateCounts:
    """Counts over all gates of these layers; ``log_a`` as for `expected_open`."""
    log_a = all_log_a(layers) if log_a is None else log_a
    return count(log_a, layers[0].temperature, layers[0].stretch, float(layers[0].threshold))
