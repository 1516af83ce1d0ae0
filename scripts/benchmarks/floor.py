"""How little a search could take: its arithmetic, its memory traffic, and what products reach here."""

import time
from dataclasses import dataclass

import torch

from benchmarks.models import Size
from fairseq_headprune.base.timing import spread
from fairseq_headprune.units.layout import HeadLayout

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Work:
    """Floating-point operations (a multiply and an add are two) and bytes that must be read."""

    encoder_flops: int
    decoder_flops: int
    encoder_bytes: int
    decoder_bytes: int

    @property
    def flops(self) -> int:
        return self.encoder_flops + self.decoder_flops

    @property
    def bytes(self) -> int:
        return self.encoder_bytes + self.decoder_bytes


def search_work(
    size: Size,
    words: int,
    layout: HeadLayout,
    batch: int,
    source: int,
    target: int,
    beam: int,
) -> Work:
    """One beam search: ``batch`` sentences of ``source`` tokens, ``target`` steps.

    Weights are read once by the encoder and once per step by the decoder; keys and values of a
    hypothesis once per step. Norms, softmax and the search itself are left out: they are of order
    C and V where the products are of order C^2 and CV.
    """
    C, F, d = size.width, size.ffn, size.width // size.heads
    counts = layout.counts()
    encoder_heads, self_heads, cross_heads = (counts[t] * d for t in ("enc_self", "dec_self", "dec_enc"))
    tokens, rows = batch * source, batch * beam
    encoder_weights = 4 * C * encoder_heads + 2 * C * F * size.layers
    memory_weights = 2 * C * cross_heads
    step_weights = 4 * C * self_heads + 2 * C * cross_heads + 2 * C * F * size.layers + C * words
    past = target * (target + 1) // 2  # keys of one hypothesis over all steps
    encoder_flops = 2 * tokens * (encoder_weights + memory_weights + 2 * source * encoder_heads)
    decoder_flops = 2 * rows * target * step_weights
    decoder_flops += 4 * rows * (past * self_heads + target * source * cross_heads)
    encoder_bytes = FLOAT * (encoder_weights + memory_weights)
    decoder_bytes = FLOAT * target * step_weights
    decoder_bytes += 2 * FLOAT * (rows * past * self_heads + batch * target * source * cross_heads)
    return Work(encoder_flops, decoder_flops, encoder_bytes, decoder_bytes)


def product_rate(rows: int, width: int, out: int, repeats: int = 9, pool: int = 1 << 26) -> float:
    """Median floating-point operations per second of process time of ``[rows, width] x [width,
    out]``, the weights coming from ``pool`` bytes in turn, as a model's do."""
    number = max(2, pool // (FLOAT * width * out))
    weights = [torch.randn(width, out) for _ in range(number)]
    x = torch.randn(rows, width)
    for weight in weights[:2]:
        torch.mm(x, weight)
    calls = max(2, min(number, int(4e8 / (2 * rows * width * out)) + 1))
    taken, next_weight = [], 0
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            torch.mm(x, weights[next_weight])
            next_weight = (next_weight + 1) % number
        taken.append((time.process_time() - start) / calls)
    return 2 * rows * width * out / spread(taken)["median"]


def rates(size: Size, batch: int, source: int, beam: int) -> tuple[float, float]:
    """``product_rate`` of the encoder's and of the decoder's feed-forward product."""
    return (
        product_rate(batch * source, size.width, size.ffn),
        product_rate(batch * beam, size.width, size.ffn),
    )


def floor_seconds(work: Work, encoder_rate: float, decoder_rate: float) -> float:
    """Time of the arithmetic alone if all of it ran like one plain matrix product of its rows."""
    return work.encoder_flops / encoder_rate + work.decoder_flops / decoder_rate


def compare_with_floor(
    work: Work, encoder_rate: float, decoder_rate: float, seconds: float
) -> dict[str, float]:
    """One row of the floor table."""
    least = floor_seconds(work, encoder_rate, decoder_rate)
    return {
        "gflop": work.flops / 1e9,
        "gbyte": work.bytes / 1e9,
        "encoder_gflop_per_second": encoder_rate / 1e9,
        "decoder_gflop_per_second": decoder_rate / 1e9,
        "floor_seconds": least,
        "measured_seconds": seconds,
        "times_floor": seconds / least,
    }
