"""Does a change hit sentences that have a relation more than sentences of the same length that do not?"""

from typing import Any

import numpy as np

from fairseq_headprune.analysis.ablation.sentence_loss import Losses
from fairseq_headprune.base.intervals import GROUPS, Bootstrap, group


class Contrast:
    """Changes of the loss of some sentences, held against each other.

    ``lengths``: of the sources, ``[sentences]``. Sentences are matched by exact length: each length with
    sentences of both kinds counts with the target tokens of its sentences that have the relation, on both
    sides; other sentences are left out. Intervals are bootstrap intervals over sentences.
    """

    def __init__(self, lengths: np.ndarray, resamples: int, level: float, seed: int):
        _, self._stratum = np.unique(lengths, return_inverse=True)
        self._groups = min(len(lengths), GROUPS)
        self._group = np.array([group(i, self._groups) for i in range(len(lengths))])
        self._bootstrap = Bootstrap(self._groups, resamples, level, seed)

    def measure(self, before: Losses, after: Losses, has: np.ndarray, usable: np.ndarray) -> dict[str, Any]:
        """``has``: bool ``[sentences]``, of those that are ``usable``.

        Changes in nats per target token: ``with`` the relation, ``without`` it, and their difference
        ``contrast``, each with ``_low`` and ``_high``; None where no length has both kinds.
        ``sentences_with`` and ``sentences_without`` were compared; ``unmatched`` have the relation, and no
        partner.
        """
        strata = self._stratum.max() + 1
        side = np.where(has, 0, 1)
        sums = np.zeros((self._groups, strata, 2, 2))  # of groups, lengths, kinds: change and target tokens
        amounts = np.stack([after.nats - before.nats, before.tokens], axis=1)
        np.add.at(sums, (self._group[usable], self._stratum[usable], side[usable]), amounts[usable])
        both = np.zeros((strata, 2), int)
        np.add.at(both, (self._stratum[usable], side[usable]), 1)
        matched = (both > 0).all(1)
        value = _rates(sums.sum(0))
        low, high = self._bootstrap.bounds(_rates(self._bootstrap.totals(sums)))
        found: dict[str, Any] = {}
        for place, name in enumerate(("with", "without", "contrast")):
            for suffix, numbers in (("", value), ("_low", low), ("_high", high)):
                found[name + suffix] = float(numbers[place]) if matched.any() else None
        with_, without = both[matched].sum(0).tolist()
        return {
            **found,
            "sentences_with": with_,
            "sentences_without": without,
            "unmatched": int(both[~matched, 0].sum()),
        }


def _rates(sums: np.ndarray) -> np.ndarray:
    """``[..., 3]`` from ``[..., lengths, kinds, 2]``: with, without, difference; NaN without any match."""
    change, tokens = sums[..., 0], sums[..., 1]
    matched = (tokens > 0).all(-1)
    weight = np.where(matched, tokens[..., 0], 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(matched[..., None], change / tokens, 0)
        rates = (weight[..., None] * rate).sum(-2) / weight.sum(-1)[..., None]
    return np.concatenate([rates, rates[..., :1] - rates[..., 1:]], axis=-1)
