"""What the relevance of a sentence costs, before it is computed."""

import time

import torch
from torch import Tensor, nn

from fairseq_headprune.lrp.chunks import size
from fairseq_headprune.lrp.network import FeedForwardPart, HeadsPart, Linear, Network, RecurrentPart
from fairseq_headprune.lrp.relevance import ALONE, head_relevance

PROBES = (4, 16)
"""Tokens of the two sentences that are timed: what any sentence costs, and what length adds."""
SLACK = 2**25
"""Bytes of blocks that are worked on, and of what is kept for the next layer."""


def operations(network: Network, source: int, steps: int) -> int:
    """Multiplications that hand relevance from every step's logit back to all tokens; cubic in the length."""
    tokens = {"enc_self": (source, source), "dec_self": (steps, steps), "dec_enc": (steps, source)}
    per_start = 0
    for stack, length in ((network.encoder, source), (network.decoder, steps)):
        for block in stack.blocks:
            part = block.part
            if isinstance(part, HeadsPart):
                queries, keys = tokens[part.key]
                inner = len(part.heads) * part.head_dim
                per_start += queries * (_numel(part.query) + _numel(part.out))
                per_start += keys * _numel(part.key_value) + 3 * queries * keys * inner
            elif isinstance(part, FeedForwardPart):
                per_start += length * (_numel(part.fc1) + _numel(part.fc2))
            elif isinstance(part, RecurrentPart):
                per_start += length * _numel(part.value)
    return steps * per_start


def _numel(linear: Linear) -> int:
    return linear.weight.numel()


def memory(network: Network, source: int, steps: int, alone: int = ALONE) -> int:
    """Bytes that one sentence takes beside the model, in double precision: the weights once more, what the
    forward pass keeps, and six tensors of the way back. A bound, not what is taken."""
    longest = max(source, steps)
    one_start = size(network, 1, longest, 1)
    largest = one_start * max(1, min(steps, alone // one_start))
    tokens = {"enc_self": (source, source), "dec_self": (steps, steps), "dec_enc": (steps, source)}
    weights = kept = 0
    for stack, length in ((network.encoder, source), (network.decoder, steps)):
        for block in stack.blocks:
            part = block.part
            channels = len(block.norm.weight)
            kept += 4 * length * channels
            if isinstance(part, HeadsPart):
                queries, keys = tokens[part.key]
                inner = len(part.heads) * part.head_dim
                kept += len(part.heads) * queries * keys + 3 * queries * inner + 2 * keys * inner
                weights += _numel(part.query) + _numel(part.key_value) + _numel(part.out)
            elif isinstance(part, FeedForwardPart):
                kept += length * part.fc1.weight.shape[0]
                weights += _numel(part.fc1) + _numel(part.fc2)
            elif isinstance(part, RecurrentPart):
                weights += _numel(part.forget) + _numel(part.value)
    vocabulary = _numel(network.output) + 2 * steps * network.output.weight.shape[0]
    return 8 * (weights + vocabulary + kept + 6 * largest) + SLACK


class Forecast:
    """How long relevance will take here, from two short sentences that are timed once.

    ``options`` as `head_relevance` takes them.
    """

    def __init__(self, model: nn.Module, **options):
        self._model = model
        self._options = options
        self.network = Network.of(model, next(model.parameters()).dtype)
        self._fit: tuple[float, float] | None = None

    def operations(self, lengths: list[tuple[int, int]]) -> int:
        """`operations` of sentences with these (source tokens, steps)."""
        return sum(operations(self.network, *pair) for pair in lengths)

    def memory(self, source: int, steps: int) -> int:
        """`memory` of one sentence on the model's device."""
        on_cpu = next(self._model.parameters()).device.type == "cpu"
        return memory(self.network, source, steps, ALONE if on_cpu else 2**25)

    def seconds(self, lengths: list[tuple[int, int]]) -> float:
        """Of sentences with these (source tokens, steps)."""
        if self._fit is None:
            self._fit = self._measure()
        each, rate = self._fit
        return len(lengths) * each + rate * self.operations(lengths)

    def _measure(self) -> tuple[float, float]:
        times = []
        for length in (PROBES[0], *PROBES):  # the first one warms up
            tokens = self._tokens(length)
            started = time.perf_counter()
            head_relevance(self._model, tokens, None, tokens, **self._options)
            times.append(time.perf_counter() - started)
        few, many = (operations(self.network, n, n) for n in PROBES)
        # a small difference may drown in noise: at least a quarter of the time is put down to length
        rate = max(times[2] - times[1], times[2] / 4) / (many - few)
        return max(0.0, times[1] - rate * few), rate

    def _tokens(self, length: int) -> Tensor:
        device = next(self._model.parameters()).device
        # any word but padding
        word = max(self._model.encoder.padding_idx, self._model.decoder.padding_idx) + 1
        return torch.full((1, length), word, device=device)
