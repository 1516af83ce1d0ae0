"""Bootstrap intervals over sentences, in memory that does not grow with their number.

Sentences are put into at most `GROUPS` groups and every count is kept per group; what is resampled
are groups. With no more sentences than groups, that is the bootstrap over sentences itself; with
more, groups of independent sentences, formed without looking at them, give the same variance.
Tokens of one sentence are not independent, which is why tokens are never resampled.
"""

import warnings

import numpy as np

GROUPS = 1000
_MASK = (1 << 64) - 1


def group(position: int, groups: int = GROUPS) -> int:
    """The group of the sentence at ``position`` (0, 1, ...) in the dump.

    The first ones get a group each; later ones are scattered by a hash (splitmix64), because a
    dump is sorted by length and neighbours must not end in neighbouring groups in turn.
    """
    if position < groups:
        return position
    z = (position * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) % groups


class Bootstrap:
    """``resamples`` draws of the groups 0..groups-1 with replacement, the same for every share."""

    def __init__(self, groups: int, resamples: int = 1000, level: float = 0.95, seed: int = 1):
        self.groups = groups
        self.level = level
        equal = np.full(groups, 1 / groups)
        draws = np.random.default_rng(seed).multinomial(groups, equal, size=resamples)
        self._weights = draws.astype(np.float64)

    def interval(self, sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Percentile interval of ``sums.sum(0) / counts.sum(0)``: (low, high).

        ``sums`` and ``counts`` are ``[groups, ...]`` and broadcast against each other. NaN where
        nothing was counted; resamples that count nothing are left out.
        """
        shape = np.broadcast_shapes(sums.shape[1:], counts.shape[1:])
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.broadcast_to(
                self._totals(sums, len(shape)) / self._totals(counts, len(shape)),
                (len(self._weights),) + shape,
            )
        return self.bounds(shares)

    def bounds(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Percentile interval of a number that was computed for every resample, ``[resamples, ...]``."""
        tail = 100 * (1 - self.level) / 2
        percentile = np.nanpercentile if np.isnan(values).any() else np.percentile
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column of NaN stays NaN
            low, high = percentile(values, [tail, 100 - tail], axis=0)
        return low, high

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Sums over the groups of each draw, ``[resamples, ...]`` from ``[groups, ...]``."""
        totals = self._weights @ values.reshape(len(values), -1).astype(np.float64)
        return totals.reshape(len(totals), *values.shape[1:])

    def _totals(self, values, dimensions):
        """`totals` with leading axes of 1."""
        missing = dimensions - (values.ndim - 1)
        return self.totals(values).reshape((-1,) + (1,) * missing + values.shape[1:])
