"""From the tally of relations to ``relations`` and the ``syntactic`` of heads (keys: README.md)."""

from typing import NamedTuple

import numpy as np

from fairseq_headprune.analysis.roles.chance import holm, sign_test
from fairseq_headprune.analysis.roles.heads import DIRECTIONS, Thresholds, is_syntactic, most_frequent
from fairseq_headprune.analysis.roles.shares import NOTHING, number, share_of
from fairseq_headprune.analysis.roles.tallies import AROUND, FAR, NEAR, SyntaxTally
from fairseq_headprune.base.intervals import Bootstrap

DISTANCES = {"1": (1, 1), "2": (2, 2), "3-4": (3, 4), "5-8": (5, AROUND)}
"""Distances of related words that are told apart, in words; what is further away is ``9+``."""
REST = f"{AROUND + 1}+"


def _cases(analysis, limits, groups):
    """hits, cases by `Thresholds.syntactic_over` and near, of the groups that are in use."""
    hits, pairs, words, near = (array[:groups] for array in analysis.syntax.by_group())
    return hits, pairs if limits.syntactic_over == "pairs" else words, near


class Positions(NamedTuple):
    """Hits and pairs by relative position: `SyntaxTally.by_position`."""

    hits: np.ndarray
    pairs: np.ndarray
    all_hits: np.ndarray
    all_pairs: np.ndarray

    @classmethod
    def of(cls, tally: SyntaxTally) -> "Positions":
        """Those of a finished pass."""
        return cls(*tally.by_position())

    def away(self, slot: int, offset: int | None, draws: Bootstrap) -> list[dict]:
        """Per head, accuracy on the pairs that the best position does not find; counted by pairs."""
        if offset is None or abs(offset) > AROUND:
            return [{"away": None, "away_n": 0, "away_low": None, "away_high": None}] * self.hits.shape[-1]
        used = slice(draws.groups)
        hits = self.all_hits[used, slot] - self.hits[used, slot, offset + AROUND]
        pairs = self.all_pairs[used, slot] - self.pairs[used, slot, offset + AROUND]
        shares = share_of(draws, hits, pairs)
        return [{"away" if k == "value" else f"away_{k}": v for k, v in share.items()} for share in shares]

    def _by_distance(self, inside: np.ndarray, total: np.ndarray) -> dict[str, np.ndarray]:
        """Sums of ``inside`` ``[2 AROUND + 1, ...]`` by distance, and what ``total`` has beyond."""
        found = {
            name: inside[AROUND + low : AROUND + high + 1].sum(0)
            + inside[AROUND - high : AROUND - low + 1].sum(0)
            for name, (low, high) in DISTANCES.items()
        }
        return {**found, REST: total - inside.sum(0)}

    def distances(self, slot: int) -> dict[str, int]:
        """Pairs by distance."""
        found = self._by_distance(self.pairs[:, slot].sum(0), self.all_pairs[:, slot].sum(0))
        return {name: int(n) for name, n in found.items()}

    def by_distance(self, slot: int) -> list[dict]:
        """Per head, accuracy on pairs by their distance, counted by pairs."""
        hits = self._by_distance(self.hits[:, slot].sum(0), self.all_hits[:, slot].sum(0))
        pairs = self.distances(slot)
        heads = range(self.hits.shape[-1])
        return [{k: number(hits[k][h] / n) if n else None for k, n in pairs.items()} for h in heads]


def relations_of(analysis, limits: Thresholds, draws: Bootstrap, groups: int) -> dict:
    """The block ``relations``: what the trees are, and the positional baseline."""
    _, asked, near = _cases(analysis, limits, groups)
    words = analysis.syntax.by_group()[2].sum(axis=0)
    all_pairs = analysis.syntax.all()
    positions = Positions.of(analysis.syntax)
    result: dict = {}
    for place, relation in enumerate(analysis.relations):
        result[relation] = {}
        for side, direction in enumerate(DIRECTIONS):
            slot = 2 * place + side
            counts = all_pairs[slot]
            histogram = {int(i) - FAR: int(counts[i]) for i in np.flatnonzero(counts)}
            offset, best = most_frequent(histogram)
            n = int(asked[:, slot].sum())
            entry = {
                "n": n,
                "pairs": int(counts.sum()),
                "words": int(words[slot]),
                "sentences": int(analysis.syntax.sentences[slot]),
                "baseline": number(best / n) if n else None,
                "baseline_offset": offset,
                "baseline_low": None,
                "baseline_high": None,
            }
            if offset is not None and abs(offset) <= NEAR:
                hits = near[:, slot, offset + NEAR][:, None]
                (share,) = share_of(draws, hits, asked[:, slot])
                entry.update(baseline_low=share["low"], baseline_high=share["high"])
            entry["distances"] = positions.distances(slot)
            entry["histogram"] = {f"{key}": histogram[key] for key in sorted(histogram)}
            result[relation][direction] = entry
    return result


def syntactic(
    analysis, relations: dict, limits: Thresholds, draws: Bootstrap, coarse: Bootstrap
) -> list[dict]:
    """The block ``syntactic`` of every encoder head; ``coarse`` draws the groups of `Positions`."""
    groups = draws.groups
    hits, asked, near = _cases(analysis, limits, groups)
    positions = Positions.of(analysis.syntax)
    result: list[dict] = [{} for _ in range(hits.shape[2])]
    for place, relation in enumerate(analysis.relations):
        for side, direction in enumerate(DIRECTIONS):
            slot = 2 * place + side
            entry = relations[relation][direction]
            baseline, offset = entry["baseline"], entry["baseline_offset"]
            shares = share_of(draws, hits[:, slot], asked[:, slot], name="accuracy")
            gains, chances = [NOTHING] * len(shares), [None] * len(shares)
            if offset is not None and abs(offset) <= NEAR:
                gain = hits[:, slot] - near[:, slot, offset + NEAR][:, None]
                gains = share_of(draws, gain, asked[:, slot])
                chances = list(map(float, sign_test(gain)))
            away, by_distance = positions.away(slot, offset, coarse), positions.by_distance(slot)
            for head, share in enumerate(shares):
                accuracy = share["accuracy"]
                known = accuracy is not None and baseline is not None
                result[head].setdefault(relation, {})[direction] = {
                    **share,
                    "baseline": baseline,
                    "baseline_offset": offset,
                    "gain": number(accuracy - baseline) if known else None,
                    "gain_low": gains[head]["low"],
                    "gain_high": gains[head]["high"],
                    "gain_p": chances[head],
                    "gain_p_holm": None,
                    "syntactic": is_syntactic(accuracy, baseline, limits),
                    **away[head],
                    "by_distance": by_distance[head],
                }
    _correct(result)
    return result


def _correct(heads: list[dict]) -> None:
    """Holm's correction of ``gain_p`` over every head, relation and direction that was looked at."""
    tests = [m for head in heads for directions in head.values() for m in directions.values()]
    tests = [m for m in tests if m["gain_p"] is not None]
    for m, adjusted in zip(tests, holm(np.array([m["gain_p"] for m in tests]))):
        m["gain_p"], m["gain_p_holm"] = float(f"{m['gain_p']:.3g}"), float(f"{adjusted:.3g}")
