"""How weights lie in memory while a model only translates.

A search step multiplies few rows (beams) with large weights. Matrix products on a CPU are then up to
a third faster when the weight is stored by columns, and one product with several weights stacked is
faster than several. Both are changes of storage alone: values, shapes and names stay, and what was
one tensor stays one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def by_columns(weight: Tensor) -> Tensor:
    """The same matrix [out, in], stored so that each input's column is contiguous."""
    return weight.detach().t().contiguous().t()


def store_by_columns(*linears: nn.Module) -> None:
    """Re-store the weights of nn.Linear modules in place; anything else is left alone."""
    for linear in linears:
        if type(linear) is nn.Linear:
            linear.weight.data = by_columns(linear.weight)


def stack_weights(linears: Sequence[nn.Module]) -> Tensor:
    """One matrix [sum of outs, in] of all their weights; theirs become views of it."""
    whole = by_columns(torch.cat([linear.weight.detach() for linear in linears]))
    start = 0
    for linear in linears:
        rows = linear.weight.size(0)
        linear.weight.data = whole[start : start + rows]
        start += rows
    return whole


def stack_biases(linears: Sequence[nn.Module]) -> Tensor | None:
    """One vector of all their biases, or None when they have none."""
    if linears[0].bias is None:
        return None
    return torch.cat([linear.bias.detach() for linear in linears])
