"""The one attention module of all our models: any set of heads, with or without gates.

It keeps the parameter names of fairseq's MultiheadAttention (q_proj, k_proj, v_proj, out_proj), with
rows and columns only for heads that exist, so stock checkpoints load into it as they are.
Gate g_k scales the columns of W_O that read head k, which is the same as scaling the head's output
(section 6.1) and costs C^2 instead of T*B*C operations.
"""

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_headprune.nn.weight_storage import stack_biases, stack_weights, store_by_columns
from fairseq_headprune.units.anatomy import PROJECTIONS, head_rows
from fairseq_headprune.units.gates import HeadGates


class HeadAttention(MultiheadAttention):
    """Multi-head attention over the heads ``heads`` out of ``total_heads``.

    Shapes as in fairseq: query, key, value ``[time, batch, channels]``; the result is the output
    ``[time, batch, channels]`` and, when asked for, weights ``[heads, batch, queries, keys]`` or
    their mean over heads. ``num_heads`` is the number of heads that exist; head k of them has the
    original number ``heads[k]``. With no head at all the output is the bias of W_O.
    In cross attention the key batch may be smaller than the query batch by a whole factor: beams of
    one sentence then share its keys and values.
    """

    def __init__(
        self,
        embed_dim: int,
        total_heads: int,
        heads: Sequence[int],
        gates: HeadGates | None = None,
        **kwargs,
    ):
        # built with all heads first: the same seed then gives the same weights as a stock model
        super().__init__(embed_dim, total_heads, **kwargs)
        self.total_heads = total_heads
        self.heads = tuple(range(total_heads))
        self.keep_heads(heads)
        self.gates = gates
        self.register_buffer("packed_weight", None, persistent=False)
        self.register_buffer("packed_bias", None, persistent=False)
        self.recorder: list[Tensor] | None = None
        self.groups = 1  # beams that share one sentence's keys, as seen by the last forward

    # -- which heads ----------------------------------------------------------------

    def keep_heads(self, heads: Sequence[int]) -> None:
        """Drop the parameters of every head that is not among ``heads`` (original numbers, sorted).

        The only place that changes sizes; everything that depends on them is set here. Of a module
        with gates or merged projections make a copy by `without_gates` first. ValueError for a head
        that is not there.
        """
        heads = tuple(heads)
        if heads == self.heads:
            return
        rows = torch.tensor(head_rows(self.heads, heads, self.head_dim), dtype=torch.long)
        for name, dim in PROJECTIONS.items():
            old = getattr(self, name)
            weight = old.weight.detach().index_select(dim, rows.to(old.weight.device))
            bias = None if old.bias is None else old.bias.detach()
            if bias is not None and dim == 0:
                bias = bias.index_select(0, rows.to(bias.device))
            setattr(self, name, _linear(weight, bias))
        self.heads = heads
        self.num_heads = len(heads)
        # embed_dim stays the width of the input; only the inner width shrinks

    def open_heads(self) -> tuple[int, ...]:
        """Original numbers of the heads that act in evaluation."""
        if self.gates is None:
            return self.heads
        return tuple(h for h, is_open in zip(self.heads, self.gates.is_open()) if is_open)

    def without_gates(self) -> "HeadAttention":
        """A copy with all heads that exist here, no gates, and projections that are not merged."""
        twin = copy.deepcopy(self)
        twin.packed_weight = twin.packed_bias = None
        twin.gates = None
        return twin

    def make_generation_fast_(self, **kwargs):
        """Called once by fairseq before generation: closed heads go, projections are merged."""
        if self.gates is not None:
            self.keep_heads(self.open_heads())
            self.gates = None
        store_by_columns(self.q_proj, self.out_proj)
        if self.num_heads == 0 or self.kdim != self.vdim:
            return
        stacked = [self.k_proj, self.v_proj]
        if self.self_attention:
            stacked = [self.q_proj] + stacked
        self.packed_weight = stack_weights(stacked)
        self.packed_bias = stack_biases(stacked)

    # -- forward --------------------------------------------------------------------

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        assert not before_softmax, "before_softmax is not supported"
        tgt_len, bsz, _ = query.size()
        if self.num_heads == 0:
            return self._without_heads(query, key, need_weights or need_head_weights)

        if self.self_attention:
            q, k, v = self._project_self(query)
        else:
            q = self._split(self.q_proj(query))
            k, v = None, None
        if incremental_state is not None:
            k, v, key_padding_mask = self._cached(incremental_state, key, value, k, v, key_padding_mask)
        elif k is None:
            assert key is not None and value is not None
            k, v = self._project_key_value(key, value)
        assert k is not None and v is not None

        groups = bsz // k.size(0)
        self.groups = groups
        if groups > 1:
            # beams of one sentence become extra queries: [B*beam, H, 1, d] -> [B, H, beam*1, d]
            q = (
                q.view(k.size(0), groups, self.num_heads, tgt_len, self.head_dim)
                .transpose(1, 2)
                .reshape(k.size(0), self.num_heads, groups * tgt_len, self.head_dim)
            )

        wanted = need_weights or need_head_weights
        if not torch.jit.is_scripting():
            wanted = wanted or self.recorder is not None
        dropout = 0.0
        if self.training or self.dropout_module.apply_during_inference:
            dropout = self.dropout_module.p
        mask = _additive_mask(attn_mask, key_padding_mask, q)
        weights: Tensor | None = None
        if wanted:
            scores = torch.matmul(q * self.scaling, k.transpose(-1, -2))
            if mask is not None:
                scores = scores + mask
            # half precision sums in single; double stays double
            double = scores.dtype == torch.float64
            weights = torch.softmax(scores, dim=-1, dtype=torch.float64 if double else torch.float32)
            context = torch.matmul(F.dropout(weights.type_as(v), dropout, dropout > 0.0), v)
        else:
            context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)

        if groups > 1:
            context = _ungroup(context, groups)
            if weights is not None:
                weights = _ungroup(weights, groups)
        out = context.permute(2, 0, 1, 3).reshape(tgt_len, bsz, self.num_heads * self.head_dim)
        out = self.project_out(out)

        if weights is None:
            return out, None
        if not torch.jit.is_scripting():
            if self.recorder is not None:
                self.recorder.append(weights.detach().float())
        if not (need_weights or need_head_weights):
            return out, None
        weights = weights.transpose(0, 1)
        if not need_head_weights:
            weights = weights.mean(dim=0)
        return out, weights

    def _split(self, x: Tensor) -> Tensor:
        """[T, B, H*d] -> [B, H, T, d]."""
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def _project_self(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        packed = self.packed_weight
        if packed is not None:
            q, k, v = F.linear(x, packed, self.packed_bias).chunk(3, dim=-1)
        else:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return self._split(q), self._split(k), self._split(v)

    def _project_key_value(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        packed = self.packed_weight
        if packed is not None and not self.self_attention:
            k, v = F.linear(key, packed, self.packed_bias).chunk(2, dim=-1)
        else:
            k, v = self.k_proj(key), self.v_proj(value)
        return self._split(k), self._split(v)

    def project_out(self, x: Tensor) -> Tensor:
        """Outputs of the heads side by side ``[time, batch, K * d]`` -> ``[time, batch, channels]``."""
        if self.gates is None:
            return self.out_proj(x)
        weight = self.out_proj.weight
        gated = weight.view(-1, self.num_heads, self.head_dim) * self.gates().unsqueeze(-1)
        return F.linear(x, gated.view(weight.size()).to(weight.dtype), self.out_proj.bias)

    def _without_heads(
        self, query: Tensor, key: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        out = torch.zeros_like(query)
        if self.out_proj.bias is not None:
            out = out + self.out_proj.bias
        if not torch.jit.is_scripting():
            if self.recorder is not None:
                keys = query.size(0) if key is None else key.size(0)
                self.recorder.append(query.new_zeros([query.size(1), 0, query.size(0), keys]))
        if not need_weights or key is None:
            return out, None
        # callers average over heads: one map of zeros says that nothing was attended to
        return out, torch.zeros([1, query.size(1), query.size(0), key.size(0)], device=query.device)

    # -- incremental decoding -------------------------------------------------------

    def _cached(
        self,
        incremental_state: dict[str, dict[str, Tensor | None]],
        key: Tensor | None,
        value: Tensor | None,
        k: Tensor | None,
        v: Tensor | None,
        key_padding_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys, values [B, H, T, d] and padding mask with everything seen so far."""
        saved = self._get_input_buffer(incremental_state)
        old_k = saved["prev_key"] if "prev_key" in saved else None
        old_v = saved["prev_value"] if "prev_value" in saved else None
        old_mask = saved["prev_key_padding_mask"] if "prev_key_padding_mask" in saved else None
        if self.self_attention:
            assert k is not None and v is not None
            if old_k is not None and old_v is not None:
                k = torch.cat([old_k, k], dim=2)
                v = torch.cat([old_v, v], dim=2)
                key_padding_mask = self._append_prev_key_padding_mask(
                    key_padding_mask, old_mask, k.size(0), k.size(2), False
                )
        elif old_k is not None and old_v is not None:
            # the sentence does not change while it is translated
            return old_k, old_v, old_mask
        else:
            assert key is not None and value is not None
            k, v = self._project_key_value(key, value)
        saved["prev_key"] = k
        saved["prev_value"] = v
        saved["prev_key_padding_mask"] = key_padding_mask
        self._set_input_buffer(incremental_state, saved)
        return k, v, key_padding_mask

    @torch.jit.export
    def reorder_incremental_state(
        self,
        incremental_state: dict[str, dict[str, Tensor | None]] | None,
        new_order: Tensor,
    ):
        """Follow the beams: rows of the cache are picked in ``new_order``."""
        saved = self._get_input_buffer(incremental_state)
        order = new_order
        if self.groups > 1:
            # beams never leave their sentence, and its keys are stored once
            order = new_order.view(-1, self.groups)[:, 0] // self.groups
        for name in saved.keys():
            old = saved[name]
            if old is not None:
                saved[name] = old.index_select(0, order)
        if incremental_state is not None and len(saved) > 0:
            incremental_state = self._set_input_buffer(incremental_state, saved)
        return incremental_state


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A Linear with these values; made empty first, since torch warns of initialising no elements."""
    linear = nn.Linear(1, 1, bias=bias is not None)
    linear.out_features, linear.in_features = weight.shape
    linear.weight = nn.Parameter(weight)
    if bias is not None:
        linear.bias = nn.Parameter(bias)
    return linear


def _ungroup(x: Tensor, groups: int) -> Tensor:
    """[B, H, groups*T, n] -> [B*groups, H, T, n]."""
    batch, heads, rows, n = x.size()
    return (
        x.view(batch, heads, groups, rows // groups, n)
        .transpose(1, 2)
        .reshape(batch * groups, heads, rows // groups, n)
    )


def _additive_mask(attn_mask: Tensor | None, key_padding_mask: Tensor | None, like: Tensor) -> Tensor | None:
    """One float mask that broadcasts to [B, H, queries, keys], or None when nothing is masked."""
    mask: Tensor | None = None
    if attn_mask is not None:
        mask = attn_mask.to(like.dtype)[None, None]
    if key_padding_mask is not None and key_padding_mask.dim() > 0:
        padding = torch.zeros_like(key_padding_mask, dtype=like.dtype).masked_fill(
            key_padding_mask.to(torch.bool), float("-inf")
        )[:, None, None]
        mask = padding if mask is None else mask + padding
    return mask
