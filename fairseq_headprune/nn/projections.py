"""Any model's attention, read as plain tensors: stock, gated and pruned look the same here.

Relevance, importance and removal read weights through this view, so none of them needs to know
which class an attention module has or how a head is switched off.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.anatomy import PLACES, head_rows
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout


@dataclass(frozen=True)
class Projections:
    """One attention module with K open heads of width d; closed and removed heads are absent.

    head_k = softmax(q_k k_k^T * scaling) v_k with [q|k|v] = x W^T + b, and the module's output is
    ``concat(head_0 .. head_K-1) @ out_weight.T + out_bias`` (paper, section 2).
    ``heads[i]`` is the original number of the i-th block of d rows (q, k, v) or columns (out).
    """

    query_weight: Tensor  # [K*d, C]
    key_weight: Tensor  # [K*d, C_kv]
    value_weight: Tensor  # [K*d, C_kv]
    out_weight: Tensor  # [C, K*d]
    query_bias: Tensor | None  # [K*d]
    key_bias: Tensor | None
    value_bias: Tensor | None
    out_bias: Tensor | None  # [C]
    heads: tuple[int, ...]
    total_heads: int
    head_dim: int

    @property
    def scaling(self) -> float:
        """1/sqrt(d), applied to the query after its bias."""
        return self.head_dim**-0.5


def attention_modules(model: nn.Module) -> dict[str, list[nn.Module]]:
    """The attention modules of an encoder-decoder Transformer, per type, lowest layer first; a decoder
    of SSRUs has none of dec_self.

    UserError when ``model`` is something else.
    """
    try:
        modules = {key: [p.of(layer) for layer in p.layers(model)] for key, p in PLACES.items()}
        modules["dec_self"] = [m for m in modules["dec_self"] if m is None or hasattr(m, "q_proj")]
        missing = any(m is None for layers in modules.values() for m in layers)
    except AttributeError:
        missing = True
    if missing:
        raise UserError(
            f"{type(model).__name__} is not an encoder-decoder Transformer with self-attention "
            "and decoder-encoder attention in every layer"
        )
    return modules


def open_heads(module: nn.Module) -> tuple[int, ...]:
    """Original numbers of the heads that exist in this module and whose gate, if any, is open."""
    if hasattr(module, "open_heads"):
        return module.open_heads()
    return tuple(range(module.num_heads))


def existing_heads(module: nn.Module) -> tuple[int, ...]:
    """Original numbers of the heads that exist in this module, whatever their gates say."""
    return tuple(getattr(module, "heads", range(module.num_heads)))


def total_heads(module: nn.Module) -> int:
    """How many heads the module had before any was removed."""
    return getattr(module, "total_heads", module.num_heads)


def projections(module: nn.Module) -> Projections:
    """The tensors of one attention module as it acts in evaluation (gates exactly 0 or 1)."""
    d = module.head_dim
    present, kept = existing_heads(module), open_heads(module)
    if present == kept:
        rows = slice(None)
    else:
        device = module.out_proj.weight.device
        rows = torch.tensor(head_rows(present, kept, d), dtype=torch.long, device=device)

    def part(linear):
        bias = None if linear.bias is None else linear.bias[rows]
        return linear.weight[rows], bias

    query_weight, query_bias = part(module.q_proj)
    key_weight, key_bias = part(module.k_proj)
    value_weight, value_bias = part(module.v_proj)
    return Projections(
        query_weight,
        key_weight,
        value_weight,
        module.out_proj.weight[:, rows],
        query_bias,
        key_bias,
        value_bias,
        module.out_proj.bias,
        kept,
        total_heads(module),
        d,
    )


def _layout(model: nn.Module, heads_of) -> HeadLayout:
    modules = attention_modules(model)
    return HeadLayout(**{t: tuple(heads_of(m) for m in modules[t]) for t in ATTENTION_TYPES})


def open_layout(model: nn.Module) -> HeadLayout:
    """The heads that act in evaluation: those that exist and whose gates are open."""
    return _layout(model, open_heads)


def existing_layout(model: nn.Module) -> HeadLayout:
    """The heads that exist in the model, gates open or closed."""
    return _layout(model, existing_heads)


def whole_layout(model: nn.Module) -> HeadLayout:
    """The heads the model had before any was removed."""
    return _layout(model, lambda module: tuple(range(total_heads(module))))
