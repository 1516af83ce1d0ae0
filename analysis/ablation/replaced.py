"""Heads whose attention is replaced: they still pass values on, but no longer choose where from."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_headprune.nn.projections import projections


class Replaced(nn.Module):
    """Stands in for an attention module while whole sentences are scored.

    ``rest``: the module with its other heads. ``offsets``: head -> relative position (key minus query)
    that gets all of its attention, the nearest key where there is none; None for equal weights on all
    keys that may be looked at.
    """

    def __init__(self, module: nn.Module, rest: nn.Module, offsets: Mapping[int, int | None]):
        super().__init__()
        self.rest = rest
        self._own = projections(module)
        self._offsets = dict(offsets)
        self._cross = module.encoder_decoder_attention

    def _get_input_buffer(self, incremental_state):
        # fairseq's decoder layer asks for it before every step, and in whole sentences too
        return self.rest._get_input_buffer(incremental_state)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask=None, attn_mask=None, **options
    ):
        """As fairseq's attention, ``[time, batch, channels]``."""
        output, weights = self.rest(
            query, key, value, key_padding_mask=key_padding_mask, attn_mask=attn_mask, **options
        )
        own = self._own
        allowed = _allowed(query, key, key_padding_mask, attn_mask)
        for head, offset in self._offsets.items():
            place = own.heads.index(head) * own.head_dim
            block = slice(place, place + own.head_dim)
            bias = None if own.value_bias is None else own.value_bias[block]
            values = F.linear(value, own.value_weight[block], bias)
            fixed = pattern(allowed, offset, self._cross)
            context = torch.einsum("bqk,kbd->qbd", fixed.type_as(values), values)
            output = output + F.linear(context, own.out_weight[:, block])
        return output, weights


def _allowed(query, key, key_padding_mask, attn_mask) -> Tensor:
    """Keys that each query may look at: bool ``[batch, queries, keys]``."""
    allowed = torch.ones(query.size(1), query.size(0), key.size(0), dtype=torch.bool, device=query.device)
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask.bool()[:, None]
    return allowed if attn_mask is None else allowed & (attn_mask == 0)


def pattern(allowed: Tensor, offset: int | None, cross: bool = False) -> Tensor:
    """Weights ``[batch, queries, keys]`` that do not depend on what is said: equal ones for ``offset`` None,
    otherwise all on the allowed key nearest to query + offset.

    Padding in front of keys is in front of the queries of self-attention too, so that it makes no difference;
    ``cross``: queries are a decoder's and have none, so that positions count from the first real key.
    """
    batch, queries, keys = allowed.shape
    if offset is None:
        return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)
    key = torch.arange(keys, device=allowed.device).expand(batch, 1, keys)
    if cross:
        key = key - allowed.any(1).int().argmax(-1)[:, None, None]
    query = torch.arange(queries, device=allowed.device)[:, None]
    distance = (key - (query + offset)).abs().masked_fill(~allowed, queries + keys + abs(offset))
    return F.one_hot(distance.argmin(-1), keys)
