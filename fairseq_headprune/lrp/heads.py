"""From relevance of steps to relevance of heads: appendix A.3."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fairseq_headprune.base.errors import UserError


def normalise(relevance: Tensor) -> Tensor:
    """Each layer's head relevances over the sum of their absolute values, ``[..., heads]``.

    For rules without negative relevance this is the paper's "normalized over heads in a layer"; for
    the signed epsilon rule the plain sum passes through 0 and could not be divided by. A layer whose
    heads all hold 0 (no heads, or a step that a sentence does not have) stays 0.
    """
    total = relevance.abs().sum(-1, keepdim=True)
    return torch.where(total == 0, torch.zeros_like(relevance), relevance / total)


@dataclass
class Average:
    """Mean normalised relevance over generation steps, filled batch by batch.

    ``add`` the results of ``head_relevance``; ``average[type]`` is then ``[layers, heads]`` in
    float64. Steps whose relevance is not finite are left out and counted in ``nonfinite``.
    """

    steps: int = 0
    """Generation steps averaged over."""
    nonfinite: int = 0
    """Generation steps left out."""
    sums: dict[str, Tensor] = field(default_factory=dict)

    def add(self, relevance: Mapping[str, Tensor], valid: Tensor | None = None) -> "Average":
        """Take in ``type -> [steps, sentences, layers, heads]``.

        ``valid`` (bool ``[steps, sentences]``) is read from the result itself when it has one;
        without either, every step counts.
        """
        if valid is None:
            valid = getattr(relevance, "valid", None)
        first = next(iter(relevance.values()))
        if valid is None:
            valid = torch.ones(first.shape[:2], dtype=torch.bool, device=first.device)
        finite = valid.clone()
        for value in relevance.values():
            finite &= value.isfinite().flatten(2).all(-1)
        self.steps += int(finite.sum())
        self.nonfinite += int((valid & ~finite).sum())
        for key, value in relevance.items():
            total = normalise(value[finite].double()).sum(0)
            self.sums[key] = self.sums[key] + total if key in self.sums else total
        return self

    def __getitem__(self, key: str) -> Tensor:
        return self.sums[key] / max(1, self.steps)

    def table(self) -> dict[str, Tensor]:
        """``type -> [layers, heads]``."""
        return {key: self[key] for key in self.sums}


def average(
    results: Iterable[Mapping[str, Tensor]], max_nonfinite: float = 0.01, magnitudes: bool = False
) -> Average:
    """Relevance of heads over all generation steps of all sentences (A.3).

    Arguments:
        results: what ``head_relevance`` returned, any number of batches (a generator is fine).
        max_nonfinite: the share of steps that may be left out because they are not finite.
        magnitudes: average absolute values. Only they rank heads of a rule with both signs, where a
            head that pushes for the token at one step and against it at another has a mean near 0;
            for rules without negative relevance nothing changes.

    Raises:
        UserError: more than that share is not finite, or there is no step at all.
    """
    total = Average()
    for result in results:
        valid = getattr(result, "valid", None)
        total.add({t: value.abs() for t, value in result.items()} if magnitudes else result, valid)
    every = total.steps + total.nonfinite
    if not every:
        raise UserError("there is no generation step to average relevance over")
    if total.nonfinite > max_nonfinite * every:
        raise UserError(
            f"relevance of {total.nonfinite} of {every} generation steps is not finite: use another "
            "rule, or a larger stabiliser with rule epsilon"
        )
    return total
