"""``appendix-a2``: Definition 3 of the paper's appendix A.2 and nothing else.

    w_{u->v} = W u / sum(W u')   where v = sum(W u')        w_{u->v} = u / sum(u')   where v = prod(u')

A neuron is a pure sum or a pure product: biases have no part in either. Attention is both, step by
step: scores are sums of products q k, the context a sum of products A v. "Ignore non-linear
activation functions" is all that the appendix says of what lies between scores and A (softmax), and
of ReLU; LayerNorm, which it does not mention, is passed through too. What is small in a denominator is
held off 0 by the stabiliser, which the appendix does not have: its ratios have poles.
"""

import torch
from torch import Tensor

from fairseq_headprune.lrp.epsilon import Epsilon
from fairseq_headprune.lrp.forward import Attention
from fairseq_headprune.lrp.rules import stabilise


class AppendixA2(Epsilon):
    """Signed ratios without biases, products split as u / (u + u')."""

    name = "appendix-a2"
    attention_modes = ("full", "values")

    stabiliser = 1e-6

    def linear(self, R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """As `Epsilon`, v without its bias."""
        return super().linear(R, x, weight, None)

    def add_constant(self, R: Tensor, x: Tensor, constant: Tensor | None) -> Tensor:
        """A constant is a bias: nothing is handed to it."""
        return R

    def attention(self, R: Tensor, a: Attention, mode: str):
        """Products A v and q k are split between their factors; in mode "values" A is a weight."""
        if mode == "values":
            return super().attention(R, a, mode)
        queries, keys = a.weights.shape[2:]
        step = max(1, self.chunk_size // (a.context[:, :, 0].numel() * keys))
        R_q, R_k, R_v = [], 0, 0
        for first in range(0, queries, step):
            rows = slice(first, first + step)
            q, k, v = self._products(R[:, :, rows], a.of_queries(rows))
            R_q, R_k, R_v = [*R_q, q], R_k + k, R_v + v
        return torch.cat(R_q, dim=2), R_k, R_v

    def _products(self, R: Tensor, a: Attention) -> tuple[Tensor, Tensor, Tensor]:
        # o_ic = sum_j A_ij v_jc: each product has R_ic / o_ic of itself, of which u / (A_ij + v_jc) is
        # due to u; so both sums run over the same T_ijc = A_ij v_jc / (A_ij + v_jc)
        A, v = a.weights.unsqueeze(3), a.v.mT.unsqueeze(2)  # [B, K, i, 1, j] and [B, K, 1, c, j]
        T = A * v / stabilise(A + v, self.stabiliser)
        share = R / stabilise(a.context, self.stabiliser).unsqueeze(3)  # [B, K, i, S, c]
        R_v = torch.einsum("bkisc,bkicj->bkjsc", share, T) * a.v.unsqueeze(3)
        R_score = (share @ T).mul_(a.weights.unsqueeze(3))  # [B, K, i, S, j]
        # score_ij = sum_a q_ia k_ja, likewise; 1/sqrt(d) is a weight of every term and cancels
        q, k = a.q.unsqueeze(-1), a.k.mT.unsqueeze(2)  # [B, K, i, a, 1] and [B, K, 1, a, j]
        T = q * k / stabilise(q + k, self.stabiliser)
        share = R_score.div_(stabilise(a.q @ a.k.mT, self.stabiliser).unsqueeze(3))
        R_q = (share @ T.mT).mul_(a.q.unsqueeze(3))
        R_k = torch.einsum("bkisj,bkiaj->bkjsa", share, T) * a.k.unsqueeze(3)
        return R_q, R_k, R_v
