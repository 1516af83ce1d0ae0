"""Differences of the loss with their intervals."""

import numpy as np

from fairseq_headprune.base.intervals import GROUPS, Bootstrap, group


class LossDifference:
    """Differences to one baseline, with paired-bootstrap intervals over sentences."""

    def __init__(self, baseline, resamples: int, level: float, seed: int):
        self.baseline = baseline
        self.groups = min(len(baseline.nats), GROUPS)
        self.bootstrap = Bootstrap(self.groups, resamples, level, seed)
        self._group = np.array([group(i, self.groups) for i in range(len(baseline.nats))])
        self._tokens = np.bincount(self._group, baseline.tokens, self.groups)

    def measure(self, losses) -> dict[str, float]:
        """``loss`` in nats per target token, ``difference`` to the baseline, ``low``, ``high``."""
        change = np.bincount(self._group, losses.nats - self.baseline.nats, self.groups)
        low, high = self.bootstrap.interval(change[:, None], self._tokens[:, None])
        return {
            "loss": losses.mean(),
            "difference": float(change.sum() / self._tokens.sum()),
            "low": float(low[0]),
            "high": float(high[0]),
        }
