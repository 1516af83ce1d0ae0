"""One forward pass that keeps what relevance needs of every layer.

No dropout, whatever mode the model is in. Tensors are batch-first: ``[sentences, tokens, channels]``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairseq_headprune.lrp.network import (
    FeedForwardPart,
    HeadsPart,
    Network,
    Norm,
    RecurrentPart,
    StackPart,
)
from fairseq_headprune.nn.ssru import scan


@dataclass(frozen=True)
class Attention:
    """Attention of K heads of width d, without the projections around it.

    ``weights = softmax(q k^T * scaling)`` where ``mask`` allows, ``context = weights v``.
    """

    q: Tensor  # [B, K, queries, d], not yet scaled
    k: Tensor  # [B, K, keys, d]
    v: Tensor  # [B, K, keys, d]
    hidden: Tensor  # bool, broadcasts to [B, K, queries, keys]; true where a key is not seen
    scaling: float
    weights: Tensor  # [B, K, queries, keys]
    context: Tensor  # [B, K, queries, d]

    @classmethod
    def of(cls, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, scaling: float) -> "Attention":
        scores = (q * scaling) @ k.transpose(-1, -2)
        weights = torch.softmax(scores.masked_fill_(hidden, float("-inf")), dim=-1)
        # a query that sees no key at all (padding) attends to nothing instead of to NaN
        weights.masked_fill_(hidden, 0.0)
        return cls(q, k, v, hidden, scaling, weights, weights @ v)

    def of_queries(self, rows: slice) -> "Attention":
        """The same with some of the queries only."""
        q, weights, context = (x[:, :, rows] for x in (self.q, self.weights, self.context))
        hidden = self.hidden[:, :, rows] if self.hidden.shape[2] > 1 else self.hidden
        return Attention(q, self.k, self.v, hidden, self.scaling, weights, context)


@dataclass(frozen=True)
class Heads:
    """What an attention part computed."""

    part: HeadsPart
    query_input: Tensor  # [B, queries, C]
    memory: Tensor | None  # [B, keys, C]; None in self-attention
    attention: Attention
    concat: Tensor  # [B, queries, K*d], the input of the output projection


@dataclass(frozen=True)
class FeedForward:
    """What a feed-forward part computed."""

    part: FeedForwardPart
    input: Tensor  # [B, T, C]
    hidden: Tensor  # [B, T, ffn], after the activation


@dataclass(frozen=True)
class Recurrent:
    """What an SSRU computed: ``c_t = kept_t + added_t``."""

    part: RecurrentPart
    input: Tensor  # [B, T, C]
    kept: Tensor  # [B, T, C], f_t * c_{t-1}; 0 at the first step
    added: Tensor  # [B, T, C], (1 - f_t) * value(x_t)


@dataclass(frozen=True)
class Block:
    """What a residual block computed: ``input + update``, normed before or after."""

    input: Tensor  # [B, T, C]
    update: Tensor  # [B, T, C], what its part returned
    inner: object  # Heads, Recurrent, FeedForward, or None: an attention without heads is a constant
    norm: Norm
    pre_norm: bool


@dataclass(frozen=True)
class Stack:
    """What an encoder or decoder computed."""

    embedded: Tensor  # token embedding + position [B, T, C]
    embedding_norm: Norm | None
    blocks: list[Block]  # lowest first
    top: Tensor  # output of the last block
    final_norm: Norm | None
    output: Tensor


@dataclass(frozen=True)
class Trace:
    """What the whole network computed for one batch."""

    network: Network
    encoder: Stack
    decoder: Stack
    features: Tensor  # [B, steps, n], the input of the output projection

    @property
    def logits(self) -> Tensor:
        """[B, steps, vocabulary]."""
        return self.network.output(self.features)


@torch.no_grad()
def trace(network: Network, src_tokens: Tensor, prev_output_tokens: Tensor) -> Trace:
    """Teacher-forced pass over token numbers ``[B, source]`` and ``[B, steps]``."""
    padding = src_tokens.eq(network.encoder.padding)
    padding_mask = padding[:, None, None, :]
    encoder = _stack(network.encoder, src_tokens, padding_mask, padding)

    steps = prev_output_tokens.shape[1]
    future = torch.ones(steps, steps, dtype=torch.bool, device=src_tokens.device).triu(1)
    own_mask = future | prev_output_tokens.eq(network.decoder.padding)[:, None, None, :]
    decoder = _stack(network.decoder, prev_output_tokens, own_mask, None, encoder.output, padding_mask)
    features = decoder.output
    if network.project_out is not None:
        features = network.project_out(features)
    return Trace(network, encoder, decoder, features)


def _stack(
    stack: StackPart,
    tokens: Tensor,
    own_mask: Tensor,
    zero: Tensor | None,
    memory: Tensor | None = None,
    memory_mask: Tensor | None = None,
) -> Stack:
    embedded = stack.embed(tokens)
    x = embedded if stack.embedding_norm is None else stack.embedding_norm(embedded)
    if zero is not None:
        x = x.masked_fill(zero.unsqueeze(-1), 0.0)
    blocks = []
    for block in stack.blocks:
        inner_input = block.norm(x) if block.pre_norm else x
        if isinstance(block.part, FeedForwardPart):
            inner = _feed_forward(block.part, inner_input)
            update = block.part.fc2(inner.hidden)
        elif isinstance(block.part, RecurrentPart):
            inner = _recurrent(block.part, inner_input)
            update = torch.relu(inner.kept + inner.added)
        else:
            cross = block.part.key == "dec_enc"
            inner, update = _heads(
                block.part,
                inner_input,
                memory if cross else None,
                memory_mask if cross else own_mask,
            )
        blocks.append(Block(x, update, inner, block.norm, block.pre_norm))
        x = x + update
        if not block.pre_norm:
            x = block.norm(x)
    output = x if stack.final_norm is None else stack.final_norm(x)
    return Stack(embedded, stack.embedding_norm, blocks, x, stack.final_norm, output)


def _feed_forward(part: FeedForwardPart, x: Tensor) -> FeedForward:
    return FeedForward(part, x, part.activation(part.fc1(x)))


def _recurrent(part: RecurrentPart, x: Tensor) -> Recurrent:
    gate = torch.sigmoid(part.forget(x))
    added = (1.0 - gate) * part.value(x)
    cells = scan(gate.transpose(0, 1), added.transpose(0, 1)).transpose(0, 1)
    before = torch.cat([torch.zeros_like(cells[:, :1]), cells[:, :-1]], dim=1)
    return Recurrent(part, x, gate * before, added)


def _heads(part: HeadsPart, x: Tensor, memory: Tensor | None, hidden: Tensor):
    """(Heads, output), or (None, the constant output) when no head is open."""
    count = len(part.heads)
    if not count:
        constant = torch.zeros_like(x)
        return None, constant if part.out.bias is None else constant + part.out.bias
    if memory is None:
        q, k, v = part.together(x).chunk(3, dim=-1)
    else:
        q = part.query(x)
        k, v = part.key_value(memory).chunk(2, dim=-1)
    q, k, v = (y.unflatten(-1, (count, part.head_dim)).transpose(1, 2).contiguous() for y in (q, k, v))
    attention = Attention.of(q, k, v, hidden, part.head_dim**-0.5)
    concat = attention.context.transpose(1, 2).flatten(2)
    return Heads(part, x, memory, attention, concat), part.out(concat)
