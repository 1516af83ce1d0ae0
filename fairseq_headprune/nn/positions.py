"""Sinusoidal positions of Marian and of Hugging Face's Marian models.

Both have sines in the first half of the channels and cosines in the second, and count from 0 where
fairseq counts from padding_idx + 1. With h = channels / 2, channel i turns at 10000^(-i / (h - 1)) in Marian
(as in fairseq) and at 10000^(-i / h) in Hugging Face's.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from torch import Tensor, nn

ENCODINGS = ("fairseq", "marian", "hf-marian")


class Positions(nn.Module):
    """As fairseq's SinusoidalPositionalEmbedding, with a table that grows when a sentence needs it."""

    def __init__(self, encoding: str, width: int, padding_idx: int, size: int = 1024):
        super().__init__()
        self.width = width
        self.padding_idx = padding_idx
        self.divisor = float(width // 2 - int(encoding == "marian"))
        self.max_positions = int(1e5)
        self.register_buffer("weights", self.table(size), persistent=False)

    def table(self, size: int) -> Tensor:
        """``[size, width]``, row padding_idx + 1 + p for position p, zeros for padding."""
        rates = torch.exp(torch.arange(self.width // 2) * (-math.log(10000.0) / self.divisor))
        angles = (torch.arange(size) - (self.padding_idx + 1)).unsqueeze(1) * rates
        table = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
        table[: self.padding_idx + 1] = 0.0
        return table

    def forward(
        self,
        input: Tensor,
        incremental_state: Any | None = None,
        timestep: Tensor | None = None,
        positions: Any | None = None,
    ):
        """Tokens ``[batch, time]`` -> ``[batch, time, width]``; the last step's ``[batch, 1, width]``
        in incremental decoding."""
        batch, length = input.size()
        if self.padding_idx + 1 + length > self.weights.size(0):
            self.weights = self.table(2 * (self.padding_idx + 1 + length)).to(self.weights)
        if incremental_state is not None:
            return self.weights[self.padding_idx + length].expand(batch, 1, self.width)
        rows = utils.make_positions(input, self.padding_idx)
        return self.weights.index_select(0, rows.view(-1)).view(batch, length, self.width).detach()


class DecoderEmbedding(nn.Embedding):
    """The decoder's embeddings, with another vector for its first input, ``start``.

    That is the row of ``instead``, or zeros when ``instead`` is negative. ``weight`` may be shared.
    """

    def __init__(self, embedding: nn.Embedding, start: int, instead: int):
        super().__init__(
            embedding.num_embeddings,
            embedding.embedding_dim,
            embedding.padding_idx,
            _weight=embedding.weight,
        )
        self.weight = embedding.weight  # the same parameter: tied stays tied
        self.start = start
        self.instead = instead

    def forward(self, tokens: Tensor) -> Tensor:
        first = tokens.eq(self.start)
        if self.instead >= 0:
            tokens = tokens.masked_fill(first, self.instead)
        x = F.embedding(tokens, self.weight, self.padding_idx)
        return x if self.instead >= 0 else x.masked_fill(first.unsqueeze(-1), 0.0)
