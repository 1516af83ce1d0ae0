"""What is added up while a dump streams by: per head and per bootstrap group, never per sentence.

Every array has the groups (bootstrap.py) first. A tally is a bag of arrays, so that it can be
saved at any point and read back when a killed run goes on.
"""

from typing import Dict, List, Mapping, Sequence

import numpy as np

from analysis.bootstrap import GROUPS

NEAR = 32
"""Relative positions up to this far get an interval; those further away are counted in total."""
FAR = 1024
"""Positions further away than this are counted as this far."""


def add_rows(target: np.ndarray, index: Sequence[int], rows: np.ndarray) -> None:
    """``target[index[i]] += rows[i]`` for every i; an index may occur more than once."""
    if not len(index):
        return
    index = np.asarray(index)
    if len(index) > 1:
        order = np.argsort(index, kind="stable")
        index, first = np.unique(index[order], return_index=True)
        rows = np.add.reduceat(rows[order], first, axis=0)
    target[index] += rows


class Tally:
    """Named arrays that are added to, saved and restored. Subclasses list the arrays."""

    def arrays(self) -> Dict[str, np.ndarray]:
        """The arrays themselves, by name."""
        return {k: v for k, v in vars(self).items() if isinstance(v, np.ndarray)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the values of arrays that `arrays` gave."""
        for name, array in self.arrays().items():
            array[...] = arrays[name]


class TypeTally(Tally):
    """Confidence, positions and relevance of the heads of one attention type."""

    def __init__(self, heads: int, relevance: bool):
        self.queries = np.zeros(GROUPS)
        self.confidence = np.zeros((GROUPS, heads))
        self.shared = np.zeros(heads)
        self.blank = np.zeros(heads)
        self.votes = np.zeros((GROUPS, heads, 2 * NEAR + 1), np.float32)
        self.chances = np.zeros((GROUPS, 2 * NEAR + 1))
        self.far_votes = np.zeros((heads, 2 * FAR + 1))
        self.far_chances = np.zeros(2 * FAR + 1)
        self.relevance = np.zeros((GROUPS, heads if relevance else 0))
        self.steps = np.zeros((GROUPS, heads if relevance else 0))

    def add(self, groups: List[int], found, weight: np.ndarray, votes, chances, queries: int):
        """Sentences of equal lengths. ``found``: `roles.Largest` of ``[K, Q, sentences, heads]``;
        ``weight``: its weights as float; ``votes`` and ``chances`` as `roles.offset_votes` and
        `roles.offset_chances` give them."""
        add_rows(self.queries, groups, np.full(len(groups), queries))
        add_rows(self.confidence, groups, weight.sum(axis=0))
        self.shared += (found.count > 1).sum(axis=(0, 1))
        self.blank += (found.count == 0).sum(axis=(0, 1))
        first = 1 - queries  # the position that the first entry of votes stands for
        last = first + votes.shape[2]
        low, high = max(first, -NEAR), min(last, NEAR + 1)
        near = slice(low + NEAR, high + NEAR)
        inside = slice(low - first, high - first)
        if inside != slice(0, last - first):
            _add_clipped(self.far_votes, votes.sum(axis=0), first, FAR)
            _add_clipped(self.far_chances, chances * len(groups), first, FAR)
        if len(set(groups)) == len(groups):
            self.votes[groups, :, near] += votes[:, :, inside]
            self.chances[groups, near] += chances[inside]
        else:
            for group, of_sentence in zip(groups, votes):
                self.votes[group, :, near] += of_sentence[:, inside]
                self.chances[group, near] += chances[inside]

    def all_votes(self) -> np.ndarray:
        """Votes over all sentences by relative position: ``[heads, 2 FAR + 1]``."""
        return _totals(self.votes, self.far_votes)

    def all_chances(self) -> np.ndarray:
        """Query tokens for which the relative position exists: ``[2 FAR + 1]``."""
        return _totals(self.chances, self.far_chances)

    def add_relevance(self, group: int, shares: np.ndarray):
        """One sentence: ``shares`` ``[steps, heads]``, NaN where a layer had no relevance."""
        self.relevance[group] += np.nansum(shares, axis=0)
        self.steps[group] += np.count_nonzero(~np.isnan(shares), axis=0)


def _totals(near, far):
    """``far`` has counts of those sentences that are longer than `NEAR`, ``near`` of all."""
    total = far.copy()
    total[..., FAR - NEAR : FAR + NEAR + 1] = near.sum(axis=0, dtype=np.float64)
    return total


def _add_clipped(target, values, first, reach):
    """Add ``values[..., i]``, which is for position ``first + i``, to ``target[..., position +
    reach]``; positions out of reach go to the ends."""
    last = first + values.shape[-1]
    low, high = max(first, -reach), min(last, reach + 1)
    target[..., low + reach : high + reach] += values[..., low - first : high - first]
    target[..., 0] += values[..., : low - first].sum(axis=-1)
    target[..., -1] += values[..., high - first :].sum(axis=-1)


class SyntaxTally(Tally):
    """Votes for related words. A slot is a relation in one direction: 2 * relation + direction."""

    def __init__(self, heads: int, slots: int):
        self.slots = slots
        self.hits = np.zeros((GROUPS * slots, heads))
        self.asked = np.zeros(GROUPS * slots)
        self.near = np.zeros(GROUPS * slots * (2 * NEAR + 1))
        self.all = np.zeros((slots, 2 * FAR + 1))
        self.sentences = np.zeros(slots)

    def add(self, groups, sentences, slots, rows, offsets, votes):
        """Pairs of words, those of one query word and slot next to each other. Arrays by pair:
        group and number of its sentence, slot, number of its query word, relative position in
        words, and votes ``[pairs, heads]``."""
        place = groups * self.slots + slots
        add_rows(self.hits, place, votes)
        asked = np.append(True, np.diff(rows * self.slots + slots) != 0)
        np.add.at(self.asked, place[asked], 1)
        seen = np.unique(sentences * self.slots + slots)
        np.add.at(self.sentences, seen % self.slots, 1)
        np.add.at(self.all, (slots, np.clip(offsets, -FAR, FAR) + FAR), 1)
        near = np.abs(offsets) <= NEAR
        np.add.at(self.near, place[near] * (2 * NEAR + 1) + offsets[near] + NEAR, 1)

    def by_group(self):
        """hits ``[groups, slots, heads]``, asked ``[groups, slots]`` and near ``[groups, slots, 2
        NEAR + 1]``."""
        return (
            self.hits.reshape(GROUPS, self.slots, -1),
            self.asked.reshape(GROUPS, self.slots),
            self.near.reshape(GROUPS, self.slots, -1),
        )


class RareTally(Tally):
    """Votes for the rarest token (0) and for the two rarest (1)."""

    def __init__(self, heads: int):
        self.hits = np.zeros((GROUPS * 2, heads))
        self.queries = np.zeros(GROUPS)
        self.chance = np.zeros((GROUPS, 2))

    def add_sentence(self, group: int, tokens: int, rare):
        """One sentence of ``tokens`` tokens; ``rare`` is `roles.Rare`."""
        self.queries[group] += tokens
        # Every row would hit with the same chance, so the sum over rows is the number of targets.
        self.chance[group, 0] += len(rare.rarest)
        self.chance[group, 1] += len(rare.two_rarest)
