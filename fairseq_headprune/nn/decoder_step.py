"""One step of beam search through a decoder in evaluation: the arithmetic and nothing else.

fairseq's layers serve training, export and every option; a step of search has one token per
hypothesis, no dropout and no history but its cache, and is so short that what surrounds the
arithmetic costs as much as the arithmetic. The way through ``HeadDecoder``'s layers stays the
definition of what is computed here, and is what runs wherever ``can_step`` says no.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_headprune.nn.attention import HeadAttention
from fairseq_headprune.nn.beam_cache import BeamCache
from fairseq_headprune.nn.projections import projections
from fairseq_headprune.nn.ssru import SSRU


class AttentionWeights(NamedTuple):
    """Weights of the open heads of one attention module.

    In self-attention ``query`` holds q, k and v stacked, ``[3*H*d, C]``, and ``memory`` nothing; in
    encoder attention q alone, ``[H*d, C]``, and ``memory`` holds k and v stacked, ``[2*H*d, C]``.
    """

    query_weight: Tensor
    query_bias: Tensor | None
    memory_weight: Tensor | None
    memory_bias: Tensor | None
    out_weight: Tensor  # [C, H*d]
    out_bias: Tensor | None
    heads: int
    head_dim: int


class LayerWeights(NamedTuple):
    """What a step needs of one decoder layer."""

    self_attn: AttentionWeights | SSRU
    self_attn_norm: nn.LayerNorm
    encoder_attn: AttentionWeights
    encoder_attn_norm: nn.LayerNorm
    fc1: nn.Linear
    fc2: nn.Linear
    final_norm: nn.LayerNorm
    activation: Callable[[Tensor], Tensor]
    normalize_before: bool


@dataclass
class Search:
    """State of one search: weights read once, and everything that was computed so far."""

    layers: list[LayerWeights]
    cache: BeamCache
    encoder_keys: list[Tensor]  # per layer [B, H, d, S]
    encoder_values: list[Tensor]  # per layer [B, H, S, d]
    encoder_mask: Tensor | None  # [B, 1, 1, S], 0 and -inf; None when no source is padded
    cells: list[Tensor | None]  # per layer [rows, C], what an SSRU carries; None before the first step

    def reorder(self, order: Tensor) -> None:
        """Follow the beams, see BeamCache.reorder."""
        kept = self.cache.reorder(order)
        self.cells = [None if c is None else c.index_select(0, order) for c in self.cells]
        if kept is not None:
            self.encoder_keys = [x.index_select(0, kept) for x in self.encoder_keys]
            self.encoder_values = [x.index_select(0, kept) for x in self.encoder_values]
            if self.encoder_mask is not None:
                self.encoder_mask = self.encoder_mask.index_select(0, kept)


# -- when ---------------------------------------------------------------------------


def can_step(decoder: nn.Module) -> bool:
    """Whether every part of the decoder is one that is computed here."""
    dropouts = [decoder.dropout_module]
    for layer in decoder.layers:
        plain = (
            isinstance(getattr(layer, "self_attn", None), (HeadAttention, SSRU))
            and isinstance(layer.encoder_attn, HeadAttention)
            and getattr(layer.self_attn, "recorder", None) is None
            and layer.encoder_attn.recorder is None
            and layer.attn_ln is None
            and layer.c_attn is None
            and layer.ffn_layernorm is None
            and layer.w_resid is None
            and type(layer.fc1) is nn.Linear
            and type(layer.fc2) is nn.Linear
            and type(layer.self_attn_layer_norm) is nn.LayerNorm
            and not layer.onnx_trace
        )
        if not plain:
            return False
        dropouts += [layer.dropout_module, layer.activation_dropout_module]
        dropouts.append(layer.encoder_attn.dropout_module)
        if isinstance(layer.self_attn, HeadAttention):
            dropouts.append(layer.self_attn.dropout_module)
    return not any(d.apply_during_inference and d.p > 0 for d in dropouts)


# -- the start of a search ------------------------------------------------------------


def start(decoder: nn.Module, encoder_out: dict[str, list[Tensor]], rows: int) -> Search:
    """Read the weights and project the encoder's output ``[S, B, C]`` to keys and values.

    ``rows`` hypotheses in all; when that is a multiple of B they share sentences' keys.
    """
    memory = encoder_out["encoder_out"][0]
    length, sentences, _ = memory.shape
    layers, keys, values = [_layer_weights(layer) for layer in decoder.layers], [], []
    for layer in layers:
        weights = layer.encoder_attn
        projected = F.linear(memory, weights.memory_weight, weights.memory_bias)
        projected = projected.view(length, sentences, 2, weights.heads, weights.head_dim)
        keys.append(projected[:, :, 0].permute(1, 2, 3, 0).contiguous())
        values.append(projected[:, :, 1].permute(1, 2, 0, 3).contiguous())
    mask: Tensor | None = None
    padding = encoder_out["encoder_padding_mask"]
    if len(padding) > 0 and bool(padding[0].any()):
        mask = torch.zeros_like(padding[0], dtype=memory.dtype)
        mask = mask.masked_fill_(padding[0].to(torch.bool), float("-inf"))[:, None, None]
    cache = BeamCache(
        sentences,
        rows // sentences,
        [getattr(weights.self_attn, "heads", 0) for weights in layers],
        layers[0].encoder_attn.head_dim,
        like=memory,
    )
    return Search(layers, cache, keys, values, mask, [None] * len(layers))


def _layer_weights(layer: nn.Module) -> LayerWeights:
    own = layer.self_attn
    return LayerWeights(
        own if isinstance(own, SSRU) else _attention_weights(own),
        layer.self_attn_layer_norm,
        _attention_weights(layer.encoder_attn),
        layer.encoder_attn_layer_norm,
        layer.fc1,
        layer.fc2,
        layer.final_layer_norm,
        torch.relu_ if layer.activation_fn is F.relu else layer.activation_fn,
        layer.normalize_before,
    )


def _attention_weights(module: HeadAttention) -> AttentionWeights:
    parts = projections(module)
    query, query_bias = parts.query_weight, parts.query_bias
    stacked, stacked_bias = module.packed_weight, module.packed_bias
    if stacked is None:
        matrices = [parts.key_weight, parts.value_weight]
        biases = [parts.key_bias, parts.value_bias]
        if module.self_attention:
            matrices, biases = [query] + matrices, [query_bias] + biases
        stacked = torch.cat(matrices)
        stacked_bias = None if query_bias is None else torch.cat(biases)
    if module.self_attention:
        query, query_bias, stacked, stacked_bias = stacked, stacked_bias, None, None
    return AttentionWeights(
        query,
        query_bias,
        stacked,
        stacked_bias,
        parts.out_weight,
        parts.out_bias,
        len(parts.heads),
        parts.head_dim,
    )


# -- a step ---------------------------------------------------------------------------


def advance(decoder: nn.Module, search: Search, prev_output_tokens: Tensor) -> tuple[Tensor, Tensor | None]:
    """Decoder features ``[rows, 1, C]`` for the last of ``prev_output_tokens`` ``[rows, steps]``,
    and the last layer's attention to the source, mean over heads, ``[rows, 1, S]`` (what fairseq's
    hypotheses carry as ``attention``)."""
    tokens = prev_output_tokens[:, -1:]
    padded: Tensor | None = tokens.eq(decoder.padding_idx).squeeze(1)
    search.cache.begin_step(padded if bool(padded.any()) else None)
    x = embed(decoder, prev_output_tokens, tokens)
    paths = search.cache.mask()
    attention: Tensor | None = None
    last = len(search.layers) - 1
    for number, layer in enumerate(search.layers):
        before = layer.normalize_before
        y = layer.self_attn_norm(x) if before else x
        if isinstance(layer.self_attn, SSRU):
            search.cells[number] = layer.self_attn.step(y, search.cells[number])
            y = F.relu(search.cells[number])
        else:
            y = _self_attention(y, layer.self_attn, search.cache, number, paths)
        x = x.add_(y) if before else layer.self_attn_norm(y.add_(x))

        y = layer.encoder_attn_norm(x) if before else x
        y, weights = _encoder_attention(y, layer.encoder_attn, search, number)
        x = x.add_(y) if before else layer.encoder_attn_norm(y.add_(x))
        if number == last:
            attention = weights

        y = layer.final_norm(x) if before else x
        y = layer.fc2(layer.activation(layer.fc1(y)))
        x = x.add_(y) if before else layer.final_norm(y.add_(x))
    if decoder.layer_norm is not None:
        x = decoder.layer_norm(x)
    if decoder.project_out_dim is not None:
        x = decoder.project_out_dim(x)
    if attention is not None:
        # [B, H, beam, S] -> [rows, 1, S]
        attention = attention.mean(dim=1).view(x.size(0), 1, -1)
    return x.unsqueeze(1), attention


def embed(decoder: nn.Module, prev_output_tokens: Tensor, tokens: Tensor) -> Tensor:
    """Embedding of the last tokens with their position, ``[rows, C]``."""
    x = decoder.embed_scale * decoder.embed_tokens(tokens)
    if decoder.quant_noise is not None:
        x = decoder.quant_noise(x)
    if decoder.project_in_dim is not None:
        x = decoder.project_in_dim(x)
    positions = decoder.embed_positions
    if positions is not None:
        # the very call of fairseq's decoder; what it is given only says "the last position"
        x += positions(prev_output_tokens, incremental_state={})[:, -1:]
    if decoder.layernorm_embedding is not None:
        x = decoder.layernorm_embedding(x)
    return x.squeeze(1)


def _self_attention(
    x: Tensor, weights: AttentionWeights, cache: BeamCache, number: int, paths: Tensor | None
) -> Tensor:
    if weights.heads == 0:
        return _without_heads(x, weights)
    batch, beam, heads, d = cache.sentences, cache.beam, weights.heads, weights.head_dim
    projected = F.linear(x, weights.query_weight, weights.query_bias).view(batch, beam, 3, heads, d)
    q, k, v = projected.unbind(2)
    keys, values = cache.append(number, k, v)
    return _attend(q, keys, values, paths, weights)[0]


def _encoder_attention(
    x: Tensor, weights: AttentionWeights, search: Search, number: int
) -> tuple[Tensor, Tensor]:
    cache, keys = search.cache, search.encoder_keys[number]
    if weights.heads == 0:
        return _without_heads(x, weights), x.new_zeros(cache.sentences, 1, cache.beam, keys.size(3))
    q = F.linear(x, weights.query_weight, weights.query_bias)
    q = q.view(cache.sentences, cache.beam, weights.heads, weights.head_dim)
    return _attend(q, keys, search.encoder_values[number], search.encoder_mask, weights)


def _attend(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, weights: AttentionWeights
) -> tuple[Tensor, Tensor]:
    """Attention of ``q`` ``[B, beam, H, d]`` to keys ``[B, H, d, n]`` and values ``[B, H, n, d]``:
    the module's output ``[B*beam, C]`` and its weights ``[B, H, beam, n]``, float32."""
    batch, beam, heads, d = q.shape
    count = keys.size(3)
    q = q.transpose(1, 2).reshape(batch * heads, beam, d)
    scores = torch.baddbmm(
        q.new_empty(1, 1, 1), q, keys.view(batch * heads, d, count), beta=0.0, alpha=d**-0.5
    )
    if mask is not None:
        scores.view(batch, heads, beam, count).add_(mask)
    attention = torch.softmax(scores, dim=-1, dtype=torch.float32)
    context = torch.bmm(attention.to(values.dtype), values.view(batch * heads, count, d))
    context = context.view(batch, heads, beam, d).transpose(1, 2).reshape(batch * beam, heads * d)
    out = F.linear(context, weights.out_weight, weights.out_bias)
    return out, attention.view(batch, heads, beam, count)


def _without_heads(x: Tensor, weights: AttentionWeights) -> Tensor:
    """The bias of W_O, on its own."""
    out = torch.zeros_like(x)
    return out if weights.out_bias is None else out.add_(weights.out_bias)
