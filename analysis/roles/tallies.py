"""What is added up while a dump streams by: per head and per bootstrap group, never per sentence.

Every array has the groups (bootstrap.py) first. A tally is a bag of arrays, so that it can be
saved at any point and read back when a killed run goes on.
"""

from collections.abc import Mapping

import numpy as np

from fairseq_headprune.base.intervals import GROUPS

NEAR = 32
"""Relative positions up to this far get an interval; those further away are counted in total."""
FAR = 1024
"""Positions further away than this are counted as this far."""
AROUND = 8
"""Relative positions of related words up to this far have their hits counted apart."""
COARSE = 100
"""... in so many groups (`GROUPS` is a multiple), since there is a count per position, slot and head."""


def add_rows(target: np.ndarray, index: np.ndarray, rows: np.ndarray) -> None:
    """``target[index[i]] += rows[i]`` for every i; an index may occur more than once.

    What `numpy.add.at` does, several times faster for rows of numbers.
    """
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    if len(first) == len(index):
        target[index] += rows
    else:
        target[ordered[first]] += np.add.reduceat(rows[order], first, axis=0)


class Tally:
    """Named arrays that are added to, saved and restored. Subclasses list the arrays."""

    def arrays(self) -> dict[str, np.ndarray]:
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

    def add(self, groups: np.ndarray, found, weight: np.ndarray, votes, chances):
        """Sentences of equal lengths. ``groups``: of each; ``found``: `roles.Largest` of ``[K, Q,
        sentences, heads]``; ``weight``: its weights as float; ``votes`` and ``chances`` as
        `roles.offset_votes` and `roles.offset_chances` give them."""
        queries, heads = len(weight), weight.shape[2]
        add_rows(self.queries, groups, np.full(len(groups), queries))
        add_rows(self.confidence, groups, weight.sum(axis=0))
        shared_by, head = found.count[found.unclear], found.unclear[-1]
        self.shared += np.bincount(head[shared_by > 1], minlength=heads)
        self.blank += np.bincount(head[shared_by == 0], minlength=heads)
        first = 1 - queries  # the position that the first entry of votes stands for
        last = first + votes.shape[2]
        low, high = max(first, -NEAR), min(last, NEAR + 1)
        near = slice(low + NEAR, high + NEAR)
        inside = slice(low - first, high - first)
        if inside != slice(0, last - first):
            _add_clipped(self.far_votes, votes.sum(axis=0), first, FAR)
            _add_clipped(self.far_chances, chances * len(groups), first, FAR)
        for group, of_sentence in zip(groups.tolist(), votes):
            self.votes[group, :, near] += of_sentence[:, inside]
            self.chances[group, near] += chances[inside]

    def add_relevance(self, group: int, shares: np.ndarray):
        """One sentence: ``shares`` ``[steps, heads]``, NaN where a layer had no relevance."""
        self.relevance[group] += np.nansum(shares, axis=0)
        self.steps[group] += np.count_nonzero(~np.isnan(shares), axis=0)

    def all_votes(self) -> np.ndarray:
        """Votes over all sentences by relative position: ``[heads, 2 FAR + 1]``."""
        return _totals(self.votes, self.far_votes)

    def all_chances(self) -> np.ndarray:
        """Query tokens for which the relative position exists: ``[2 FAR + 1]``."""
        return _totals(self.chances, self.far_chances)


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
        self.pairs = np.zeros(GROUPS * slots)
        self.near = np.zeros(GROUPS * slots * (2 * NEAR + 1))
        self.far = np.zeros((slots, 2 * FAR + 1))
        self.sentences = np.zeros(slots)
        self.around = np.zeros((COARSE * slots * (2 * AROUND + 1), heads), np.float32)

    def add(self, groups, sentences, slots, rows, offsets, votes):
        """Pairs of words, those of one query word and slot next to each other. Arrays by pair:
        group and number of its sentence, slot, number of its query word, relative position in
        words, and votes ``[pairs, heads]``."""
        place = groups * self.slots + slots
        add_rows(self.hits, place, votes)
        question = rows * self.slots + slots
        asked = place[np.append(True, question[1:] != question[:-1])]
        np.add.at(self.asked, asked, np.ones(len(asked)))
        np.add.at(self.pairs, place, np.ones(len(place)))
        seen = np.zeros((sentences[-1] + 1, self.slots))
        seen[sentences, slots] = 1
        self.sentences += seen.sum(axis=0)
        around = np.abs(offsets) <= AROUND
        column = (groups % COARSE * self.slots + slots) * (2 * AROUND + 1) + offsets + AROUND
        add_rows(self.around, column[around], votes[around])
        near = np.abs(offsets) <= NEAR
        if not near.all():
            far = np.maximum(np.minimum(offsets[~near], FAR), -FAR) + FAR
            np.add.at(self.far, (slots[~near], far), 1)
            place, offsets = place[near], offsets[near]
        column = place * (2 * NEAR + 1) + offsets + NEAR
        np.add.at(self.near, column, np.ones(len(column)))

    def all(self) -> np.ndarray:
        """Pairs over all sentences by relative position: ``[slots, 2 FAR + 1]``."""
        total = self.far.copy()
        total[:, FAR - NEAR : FAR + NEAR + 1] = self.by_group()[-1].sum(axis=0)
        return total

    def by_group(self):
        """hits ``[groups, slots, heads]``; pairs of words and asking words, both ``[groups, slots]``; and
        near ``[groups, slots, 2 NEAR + 1]``."""
        return (
            self.hits.reshape(GROUPS, self.slots, -1),
            self.pairs.reshape(GROUPS, self.slots),
            self.asked.reshape(GROUPS, self.slots),
            self.near.reshape(GROUPS, self.slots, -1),
        )

    def by_position(self):
        """Of every coarse group: hits by position ``[groups, slots, 2 AROUND + 1, heads]``, pairs by position
        ``[groups, slots, 2 AROUND + 1]``, and hits and pairs at any position."""
        hits, pairs, _, near = (a.reshape(-1, COARSE, *a.shape[1:]).sum(axis=0) for a in self.by_group())
        around = self.around.reshape(COARSE, self.slots, 2 * AROUND + 1, -1).astype(np.float64)
        return around, near[..., NEAR - AROUND : NEAR + AROUND + 1], hits, pairs


class RareTally(Tally):
    """Votes for the rarest token (0) and for the two rarest (1)."""

    def __init__(self, heads: int):
        self.hits = np.zeros((2, GROUPS, heads))
        self.queries = np.zeros(GROUPS)
        self.chance = np.zeros((2, GROUPS))

    def add(self, groups, rare):
        """Sentences that count; ``rare`` is `roles.Rare` of them."""
        np.add.at(self.queries, groups, rare.rarest.shape[1])
        for kind, targets in enumerate(rare):
            # Every row would hit with the same chance: summed over rows, that is the targets.
            np.add.at(self.chance[kind], groups, targets.sum(axis=1))
