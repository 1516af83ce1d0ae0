"""Shares of counts with their bootstrap intervals, as heads.json writes them."""

import math

import numpy as np


def number(value) -> float | None:
    """A plain float, None for NaN."""
    value = float(value)
    return None if math.isnan(value) else round(value, 6)


def share_of(draws, sums, counts, suffix="", name="value") -> list[dict]:
    """One ``{name, n, low, high}`` per column of ``sums`` ``[groups, columns]``."""
    counts = np.broadcast_to(counts if counts.ndim == 2 else counts[:, None], sums.shape)
    total, size = sums.sum(axis=0, dtype=np.float64), counts.sum(axis=0)
    low, high = draws.interval(sums, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(size > 0, total / size, np.nan)
    return [
        {
            name + suffix: number(value[i]),
            "n" + suffix: int(round(size[i])),
            "low" + suffix: number(low[i]),
            "high" + suffix: number(high[i]),
        }
        for i in range(sums.shape[1])
    ]


NOTHING = {"value": None, "n": 0, "low": None, "high": None}
