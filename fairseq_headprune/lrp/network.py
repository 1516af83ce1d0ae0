"""A fairseq Transformer as plain tensors: what a forward pass in evaluation reads, and nothing else.

Heads that are removed or closed are absent, see ``projections``. Parameters are cast, never changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_headprune.nn.projections import projections
from fairseq_headprune.nn.ssru import SSRU
from fairseq_headprune.units.anatomy import PLACES
from fairseq_headprune.units.layout import ATTENTION_TYPES


@dataclass(frozen=True)
class Linear:
    """``y = x @ weight.T + bias``."""

    weight: Tensor  # [out, in]
    bias: Tensor | None  # [out]

    @classmethod
    def of(cls, module: nn.Linear | None, dtype: torch.dtype) -> Optional["Linear"]:
        return None if module is None else cls.stack([(module.weight, module.bias)], dtype)

    @classmethod
    def stack(cls, parts, dtype: torch.dtype) -> "Linear":
        """One map with the outputs of several (weight, bias) one below the other."""
        weight = torch.cat([weight for weight, _ in parts]) if parts[1:] else parts[0][0]
        bias = parts[0][1]
        if bias is not None and parts[1:]:
            bias = torch.cat([bias for _, bias in parts])
        return cls(weight.to(dtype), None if bias is None else bias.to(dtype))

    def rows(self, first: int, last: int) -> "Linear":
        """The outputs first..last-1, as views."""
        return Linear(self.weight[first:last], None if self.bias is None else self.bias[first:last])

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class Norm:
    """LayerNorm over the last axis, ``eps`` inside the root."""

    weight: Tensor  # [channels]
    bias: Tensor  # [channels]
    eps: float

    @classmethod
    def of(cls, module: nn.LayerNorm | None, dtype: torch.dtype) -> Optional["Norm"]:
        if module is None:
            return None
        return cls(module.weight.to(dtype), module.bias.to(dtype), module.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class HeadsPart:
    """Multi-head attention with its projections; K open heads of width d."""

    key: str  # attention type
    layer: int
    heads: Tensor  # LongTensor [K]: original numbers
    total_heads: int
    head_dim: int
    query: Linear  # [K*d, C]
    key_value: Linear  # [2*K*d, C]
    together: Linear | None  # in self-attention query, key and value as one map [3*K*d, C]
    out: Linear  # [C, K*d]

    @classmethod
    def of(cls, owner: nn.Module, key: str, layer: int, dtype: torch.dtype) -> "HeadsPart":
        p = projections(PLACES[key].of(owner))
        query = (p.query_weight, p.query_bias)
        memory = [(p.key_weight, p.key_bias), (p.value_weight, p.value_bias)]
        inner = len(p.heads) * p.head_dim
        if key == "dec_enc":
            together = None
            query, key_value = Linear.stack([query], dtype), Linear.stack(memory, dtype)
        else:
            together = Linear.stack([query] + memory, dtype)
            query, key_value = together.rows(0, inner), together.rows(inner, 3 * inner)
        return cls(
            key,
            layer,
            torch.tensor(p.heads, dtype=torch.long, device=p.out_weight.device),
            p.total_heads,
            p.head_dim,
            query,
            key_value,
            together,
            Linear.stack([(p.out_weight, p.out_bias)], dtype),
        )

    @property
    def value(self) -> Linear:
        """[K*d, C]."""
        inner = self.query.weight.shape[0]
        return self.key_value.rows(inner, 2 * inner)


@dataclass(frozen=True)
class FeedForwardPart:
    """``fc2(activation(fc1(x)))``."""

    fc1: Linear
    fc2: Linear
    activation: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class RecurrentPart:
    """An SSRU: ``relu(c_t)``, ``c_t = f_t c_{t-1} + (1 - f_t) value(x_t)``, ``f = sigmoid(forget(x))``."""

    forget: Linear
    value: Linear


@dataclass(frozen=True)
class BlockPart:
    """A residual block: ``x + part(norm(x))`` when ``pre_norm``, else ``norm(x + part(x))``."""

    part: object  # HeadsPart, RecurrentPart or FeedForwardPart
    norm: Norm
    pre_norm: bool


@dataclass(frozen=True)
class StackPart:
    """Encoder or decoder. ``embed(tokens)`` is the scaled embedding plus position [B, T, C]."""

    embed: Callable[[Tensor], Tensor]
    padding: int
    embedding_norm: Norm | None
    blocks: list[BlockPart]
    final_norm: Norm | None


@dataclass(frozen=True)
class Network:
    """The whole model."""

    encoder: StackPart
    decoder: StackPart
    project_out: Linear | None  # between the decoder and the output projection, mostly absent
    output: Linear  # [vocabulary, n]

    @classmethod
    @torch.no_grad()
    def of(cls, model: nn.Module, dtype: torch.dtype) -> "Network":
        """Read a model that ``support.check_model`` lets pass."""
        return cls(
            _stack(model.encoder, _encoder_blocks, dtype),
            _stack(model.decoder, _decoder_blocks, dtype),
            Linear.of(model.decoder.project_out_dim, dtype),
            Linear.of(model.decoder.output_projection, dtype),
        )

    @property
    def parts(self) -> list[object]:
        """What is inside the residual blocks, encoder first."""
        return [block.part for block in self.encoder.blocks + self.decoder.blocks]

    @property
    def head_sizes(self) -> dict[str, tuple[int, int]]:
        """Attention type -> (layers, heads a layer before any was removed)."""
        heads = [part for part in self.parts if isinstance(part, HeadsPart)]
        sizes = dict.fromkeys(ATTENTION_TYPES, (0, 0))  # what an SSRU replaces has no layer
        sizes.update({part.key: (part.layer + 1, part.total_heads) for part in heads})
        return sizes


def _stack(stack: nn.Module, blocks_of, dtype: torch.dtype) -> StackPart:
    project_in = Linear.of(getattr(stack, "project_in_dim", None), dtype)

    def embed(tokens: Tensor) -> Tensor:
        x = stack.embed_tokens(tokens).to(dtype) * stack.embed_scale
        if project_in is not None:
            x = project_in(x)
        if stack.embed_positions is not None:
            x = x + stack.embed_positions(tokens).to(dtype)
        return x

    # by index: iterating a LayerDropModuleList drops layers at random while training
    layers = [stack.layers[i] for i in range(len(stack.layers))]
    blocks = [block for number, layer in enumerate(layers) for block in blocks_of(layer, number, dtype)]
    return StackPart(
        embed,
        stack.padding_idx,
        Norm.of(stack.layernorm_embedding, dtype),
        blocks,
        Norm.of(stack.layer_norm, dtype),
    )


def _encoder_blocks(layer, number: int, dtype) -> tuple[BlockPart, ...]:
    def block(part, norm):
        return BlockPart(part, Norm.of(norm, dtype), layer.normalize_before)

    return (
        block(HeadsPart.of(layer, "enc_self", number, dtype), layer.self_attn_layer_norm),
        block(_feed_forward(layer, dtype), layer.final_layer_norm),
    )


def _decoder_blocks(layer, number: int, dtype) -> tuple[BlockPart, ...]:
    def block(part, norm):
        return BlockPart(part, Norm.of(norm, dtype), layer.normalize_before)

    own = PLACES["dec_self"].of(layer)
    if isinstance(own, SSRU):
        part = RecurrentPart(Linear.of(own.forget, dtype), Linear.of(own.value, dtype))
    else:
        part = HeadsPart.of(layer, "dec_self", number, dtype)
    return (
        block(part, layer.self_attn_layer_norm),
        block(
            HeadsPart.of(layer, "dec_enc", number, dtype),
            layer.encoder_attn_layer_norm,
        ),
        block(_feed_forward(layer, dtype), layer.final_layer_norm),
    )


def _feed_forward(layer, dtype) -> FeedForwardPart:
    return FeedForwardPart(Linear.of(layer.fc1, dtype), Linear.of(layer.fc2, dtype), layer.activation_fn)
