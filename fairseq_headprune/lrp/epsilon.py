"""``epsilon``: the signed ratio of appendix A.2 made tame; ``appendix_a2`` has it as written.

w_{u->v} = W u / (v + eps sign(v)), v the whole neuron (its bias included, so a bias keeps the part of
the relevance that is due to it). ReLU and LayerNorm pass relevance on unchanged; attention weights are
constants, which makes attention a sum over values: no product is split. Nothing is rescaled.
"""

from torch import Tensor

from fairseq_headprune.lrp.forward import Attention
from fairseq_headprune.lrp.network import Norm
from fairseq_headprune.lrp.rules import Rule, stabilise


class Epsilon(Rule):
    """Signed ratios ``W u / (v + eps sign(v))``."""

    name = "epsilon"
    attention_modes = ("values",)

    stabiliser = 0.01

    def linear(self, R: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = (weight @ x.unsqueeze(-1)).squeeze(-1) if weight.dim() > 2 else x @ weight.T
        if bias is not None:
            y = y + bias
        raw = (R * stabilise(y, self.stabiliser).reciprocal().unsqueeze(2)) @ weight
        return raw.mul_(x.unsqueeze(2))

    def norm(self, R: Tensor, x: Tensor, norm: Norm) -> Tensor:
        return R

    def add(self, R: Tensor, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        y = stabilise(x + u, self.stabiliser)
        return R * (x / y).unsqueeze(2), R * (u / y).unsqueeze(2)

    def add_constant(self, R: Tensor, x: Tensor, constant: Tensor | None) -> Tensor:
        if constant is None:
            return R
        return self.add(R, x, constant.expand_as(x))[0]

    def attention(self, R: Tensor, a: Attention, mode: str):
        share = R * stabilise(a.context, self.stabiliser).reciprocal().unsqueeze(3)
        v = (a.weights.transpose(-1, -2) @ share.flatten(3)).view(*a.v.shape[:3], *R.shape[3:])
        return None, None, v.mul_(a.v.unsqueeze(3))
