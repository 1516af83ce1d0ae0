"""``z-plus``: the rules of the authors' first release, June 2019, each sentence by itself.

Weights are clipped to be positive, biases are ignored, e = 1e-7 is added to every input, LayerNorm
passes relevance on unchanged, and attention takes input times gradient of <R / o, o>. After every
layer relevance is made positive and rescaled to the total of the sentence.
"""

from torch import Tensor

from fairseq_headprune.lrp.forward import Attention
from fairseq_headprune.lrp.network import Norm
from fairseq_headprune.lrp.rules import Rule, ratio

E = 1e-7


class ZPlus(Rule):
    """Positive weights only (alpha = 1, beta = 0)."""

    name = "z-plus"

    def linear(self, R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x + E
        positive = weight.clamp_min(E)
        total = (positive @ x.unsqueeze(-1)).squeeze(-1) if weight.dim() > 2 else x @ positive.T
        raw = (R * total.reciprocal().unsqueeze(2)) @ positive
        return _rescale(R, raw.mul_(x.unsqueeze(2)))[0]

    def norm(self, R: Tensor, x: Tensor, norm: Norm) -> Tensor:
        return R

    def add(self, R: Tensor, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        x, u = x + E, u + E
        y = x + u
        return _rescale(R, R * (x / y).unsqueeze(2), R * (u / y).unsqueeze(2))

    def add_constant(self, R: Tensor, x: Tensor, constant: Tensor | None) -> Tensor:
        return R

    def attention(self, R: Tensor, a: Attention, mode: str):
        a = Attention.of(a.q + E, a.k + E, a.v + E, a.hidden, a.scaling)
        grad = R * a.context.reciprocal().unsqueeze(3)  # [B, K, queries, S, d]
        v = (a.weights.mT @ grad.flatten(3)).view(*a.v.shape[:3], *R.shape[3:])
        v.mul_(a.v.unsqueeze(3))
        if mode == "values":
            return None, None, _rescale(R, v)[0]
        # d<S,o>/d score_ij = A_ij (S_i v_j - S_i o_i); S_i o_i is the relevance of query i
        score = (grad.flatten(2, 3) @ a.v.mT).view(*R.shape[:-1], -1)  # [B, K, queries, S, keys]
        score.sub_(R.sum(-1, keepdim=True)).mul_((a.weights * a.scaling).unsqueeze(3))
        q = (score.flatten(2, 3) @ a.k).view_as(R).mul_(a.q.unsqueeze(3))
        k = (a.q.mT @ score.flatten(3)).view(*a.q.shape[:2], -1, *score.shape[3:])
        k = k.mul_(a.k.mT.unsqueeze(3)).permute(0, 1, 4, 3, 2)  # from [B, K, d, S, keys]
        return _rescale(R, q, k, v)

    def balance(self, R: Tensor, R_query: Tensor, R_memory: Tensor) -> tuple[Tensor, Tensor]:
        total = R_query.sum((1, 3)) + R_memory.sum((1, 3))
        factor = ratio(R.sum((1, 3)), total)[:, None, :, None]
        return R_query * factor, R_memory * factor


def _rescale(R: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
    """Absolute values with one factor per sentence and start that gives them the total of R.

    Overwrites the parts.
    """
    starts = R.dim() - 2
    axes = tuple(i for i in range(1, R.dim()) if i != starts)
    has = sum(part.abs_().sum(axes, keepdim=True) for part in parts)
    factor = R.sum(axes, keepdim=True) / (has + E)
    return tuple(part.mul_(factor) for part in parts)
