"""What a rule of relevance propagation is: how each kind of layer hands relevance to its inputs.

Relevance R has shape ``[sentences, tokens, starts, neurons]``: one start of the recursion for each
generation step, all carried at once. The activations of a layer, ``[sentences, tokens, neurons]``,
do not depend on the start, so everything computed from them alone is computed once.

``alpha_beta``, ``z_plus``, ``epsilon`` and ``appendix_a2`` each hold one rule; README.md beside this
file compares them.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from fairseq_headprune.lrp.forward import Attention
from fairseq_headprune.lrp.network import Norm


class Rule(ABC):
    """Relevance of a layer's inputs from the relevance of its outputs, for each kind of layer."""

    name: str
    attention_modes: tuple[str, ...] = ("full", "values")
    """What can be asked of ``attention``; the first is the default. "full": through queries, keys
    and values; "values": attention weights are constants."""

    def __init__(self, chunk_size: int, block_size: int, share_dtype: torch.dtype = torch.float64):
        """Numbers in the largest tensor that a rule may form, and in one that should stay in a cache;
        precision enough for shares that are positive, so that no rounding is amplified."""
        self.chunk_size = chunk_size
        self.block_size = block_size
        self.share_dtype = share_dtype

    @abstractmethod
    def linear(self, R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Through ``y = x @ weight.T + bias``: R at y ``[B, T, S, out]`` -> R at x ``[B, T, S, in]``.

        ``weight`` is ``[out, in]`` and ``bias`` ``[out]``, or ``[B, T, out, in]`` and ``[B, T, out]``
        when every token has its own.
        """

    @abstractmethod
    def norm(self, R: Tensor, x: Tensor, norm: Norm) -> Tensor:
        """Through ``y = norm(x)``."""

    @abstractmethod
    def add(self, R: Tensor, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Through ``y = x + u``: R at x and R at u."""

    @abstractmethod
    def add_constant(self, R: Tensor, x: Tensor, constant: Tensor | None) -> Tensor:
        """Through ``y = x + constant``, what an attention block without heads computes."""

    @abstractmethod
    def attention(self, R: Tensor, a: Attention, mode: str) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """From R at the context to R at (q, k, v).

        All ``[B, K, tokens, S, d]``; None for q and k when ``mode`` is "values".
        """

    def balance(self, R: Tensor, R_query: Tensor, R_memory: Tensor) -> tuple[Tensor, Tensor]:
        """Last step of a decoder-encoder block that got R: what goes to its query and memory."""
        return R_query, R_memory


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Quotient that is 0 where the denominator is 0: no relevance came, none is handed on."""
    zero = denominator == 0
    return (numerator / denominator.masked_fill(zero, 1)).masked_fill(zero, 0)


def stabilise(y: Tensor, eps: float) -> Tensor:
    """``y + eps * sign(y)`` with sign(0) = +1."""
    # not y + where(y < 0, -eps, eps), which makes eps a float32
    return torch.where(y < 0, y - eps, y + eps)
