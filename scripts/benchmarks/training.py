"""A full training step (forward, backward, update) of gated and stock models, in turns."""

from collections.abc import Callable

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from torch import Tensor, nn

from benchmarks import models
from benchmarks.models import Size
from fairseq_headprune.base.timing import in_turns, summary
from fairseq_headprune.criterions.label_smoothed_cross_entropy_l0 import (
    LabelSmoothedCrossEntropyL0Criterion,
)

LAMBDA = 0.01


def batch(sentences: int, length: int, words: int, seed: int = 5) -> dict[str, object]:
    """A batch as fairseq's translation data set collates it, all sentences of one length."""
    generator = torch.Generator().manual_seed(seed)
    source, target = torch.randint(4, words, (2, sentences, length), generator=generator)
    source[:, -1] = target[:, -1] = 2
    previous = torch.cat([target[:, -1:], target[:, :-1]], dim=1)
    net_input = {
        "src_tokens": source,
        "src_lengths": torch.full((sentences,), length),
        "prev_output_tokens": previous,
    }
    return {"net_input": net_input, "target": target, "ntokens": target.numel()}


def moved(sample: dict[str, object], device: str) -> dict[str, object]:
    """The batch on a device."""
    net_input = {k: v.to(device) for k, v in sample["net_input"].items()}
    return {**sample, "net_input": net_input, "target": sample["target"].to(device)}


class Trainer:
    """One model with its criterion and Adam; calling it does one update and returns the loss."""

    def __init__(self, model: nn.Module, symbols, sample: dict[str, object], gates: bool):
        task = models.task_of(symbols)
        self.model = model.train()
        self.sample = sample
        if gates:
            self.criterion = LabelSmoothedCrossEntropyL0Criterion(task, False, 0.1, l0_lambda=LAMBDA)
        else:
            self.criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))

    def __call__(self) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss, size, _ = self.criterion(self.model, self.sample)
        loss = loss / size
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def peak_bytes(trainer: Trainer, device: str = "cpu") -> int:
    """The most that one update holds beyond what stays between updates (weights, moments of Adam): what
    tensors take, by the profiler's count of every allocation on a CPU, by the allocator's on a GPU."""
    trainer.optimizer.zero_grad(set_to_none=True)
    if device.startswith("cuda"):
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        trainer()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        trainer()
    held = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def sides(
    size: Size, words: int, sample: dict[str, object], dropout: float, device: str = "cpu"
) -> dict[str, Trainer]:
    """Stock, gates on all types, and our attention with gates off; all from one seed."""
    symbols = models.dictionary(words)
    sample = moved(sample, device)
    stock = models.stock(size, symbols, dropout=dropout)
    gated = models.ours(size, symbols, "all", dropout=dropout)
    plain = models.ours(size, symbols, "none", dropout=dropout)
    return {
        "stock": Trainer(stock.to(device), symbols, sample, gates=False),
        "gated": Trainer(gated.to(device), symbols, sample, gates=True),
        "gates off": Trainer(plain.to(device), symbols, sample, gates=False),
    }


def run(
    size: Size,
    words: int,
    sentences: int = 8,
    length: int = 25,
    dropout: float = 0.1,
    repeats: int = 7,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict[str, object]]:
    """Spreads of one update of each side, and the memory that one takes (``peak_bytes``)."""
    trainers = sides(size, words, batch(sentences, length, words), dropout, device)
    wait = torch.cuda.synchronize if device.startswith("cuda") else None
    times = in_turns(trainers, repeats, synchronize=wait, progress=lambda n: progress(f"round {n}"))
    peaks = {name: peak_bytes(trainer, device) for name, trainer in trainers.items()}
    entry = {"sentences": sentences, "length": length, "words": words}
    return [{**entry, "times": summary(times, "stock"), "peak_bytes": peaks}]
