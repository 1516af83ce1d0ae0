"""What makes a head confident, positional, syntactic or a rare-word head: definitions on arrays.

Source: Voita et al. 2019, sections 4 (confidence) and 5.1-5.3 (roles), appendix A.3 (relevance).
Arrays of weights come as ``[keys, queries, ..., heads]``: the keys lead, because a maximum over the
first axis runs over long stretches of memory, and over the last one in short steps.

One rule for ties, used everywhere: when several keys share a row's largest weight, each gets an
equal part of the row's one vote, which is what drawing one of them by lot gives on average. A row
without any weight (all of it lies on the end of sentence) points nowhere and gives no vote.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairseq_headprune.analysis.words import EOS

DIRECTIONS = ("h->d", "d->h")
"""From the syntactic head word to its dependent, and back: query -> key."""

POSITIONAL_SHARE = 0.9
SYNTACTIC_MARGIN = 0.1
RARE_TOP = 500
RARE_SHARE = 0.5

# -- largest weights --------------------------------------------------------------------


class Largest(NamedTuple):
    """Where the largest weight of every row is. K keys, Q queries."""

    weight: np.ndarray
    """The largest weight itself, in the type of the input. ``[Q, ..., heads]``"""
    at: np.ndarray
    """bool, true for every key that has it. ``[K, Q, ..., heads]``"""
    count: np.ndarray
    """How many keys share it, 0 for a row without weight. ``[Q, ..., heads]``"""
    unclear: tuple[np.ndarray, ...]
    """Index of the rows in which no key or several have it, as `numpy.nonzero` gives it."""

    def vote(self) -> np.ndarray:
        """What each of the keys that share the largest weight gets: 1, 1/2, ..., or 0. float32"""
        vote = np.ones(self.count.shape, np.float32)
        shared_by = self.count[self.unclear]
        vote[self.unclear] = np.where(shared_by, 1 / np.maximum(shared_by, 1), 0)
        return vote


def largest(weights: np.ndarray) -> Largest:
    """Find every row's largest weight in ``weights`` ``[K, Q, ..., heads]``, K > 0.

    Weights are zero or more. float16 may come as the uint16 of its bits, which are in the same
    order, and are compared several times faster.
    """
    weight = weights.max(axis=0)
    at = weights == weight
    small = np.uint8 if len(weights) < 256 else np.uint32
    count = np.add.reduce(at, axis=0, dtype=small)
    if not weight.all():
        count[weight == 0] = 0
    # Flat and then unravelled: much faster than looking for a few entries along several axes.
    unclear = np.unravel_index(np.flatnonzero(count.ravel() != 1), count.shape)
    return Largest(weight, at, count, unclear)


def token_spans(type: str, source: Sequence[str], target: Sequence[str]) -> tuple[slice, slice]:
    """Rows and columns of one sentence's attention without the end of sentence: (queries, keys).

    enc_self: source tokens but the EOS behind them. dec_self: the decoder's inputs but the EOS it
    starts from, so that query and key i both are ``target[i - 1]``. dec_enc: the steps that emit
    a token, and source tokens, both without EOS.
    """
    words = slice(0, len(source) - (source[-1:] == [EOS]))
    if type == "enc_self":
        return words, words
    if type == "dec_self":
        inputs = slice(1, len(target))
        return inputs, inputs
    return slice(0, len(target) - (target[-1:] == [EOS])), words


# -- what is counted --------------------------------------------------------------------


def offset_votes(found: Largest) -> np.ndarray:
    """Votes by relative position: float32 ``[sentences, heads, K + Q - 1]`` from ``[K, Q,
    sentences, heads]``; entry ``o + Q - 1`` counts rows whose largest weight is at query + o."""
    keys, queries, sentences, heads = found.at.shape
    width = keys + queries - 1
    size = sentences * heads * width
    small = np.uint8 if keys < 256 else np.uint32
    # Where a row has one largest weight, the sum of the numbers of the keys that have it is its number.
    numbers = np.arange(keys, dtype=small).reshape(-1, 1, 1, 1)
    key = np.add.reduce(found.at * numbers, axis=0, dtype=small)
    of_query = np.arange(queries - 1, -1, -1).reshape(-1, 1, 1)
    first = of_query + np.arange(0, size, width).reshape(sentences, heads)
    unclear = found.unclear
    key[unclear] = 0  # they are counted there, taken back, and given to whom they belong
    votes = np.bincount((first + key).ravel(), minlength=size).astype(np.float32)
    if len(unclear[0]):
        np.subtract.at(votes, first[unclear], 1)
        shared_by = found.count[unclear]
        at = found.at[(slice(None), *unclear)] & (shared_by > 0)
        key, row = np.nonzero(at)
        votes += np.bincount(key + first[unclear][row], 1 / shared_by[row], minlength=size)
    return votes.reshape(sentences, heads, width)


def offset_chances(type: str, queries: int, keys: int) -> np.ndarray:
    """For each relative position of `offset_votes`, how many queries have a key there.

    A decoder token sees none behind it.
    """
    offsets = np.arange(-queries + 1, keys)
    counts = np.minimum(queries, keys - offsets) - np.maximum(0, -offsets)
    return np.where(offsets > 0, 0, counts) if type == "dec_self" else counts


class Rare(NamedTuple):
    """The rarest tokens of sentences of equal lengths. bool ``[sentences, tokens]``; all false for
    a sentence that does not count."""

    rarest: np.ndarray
    two_rarest: np.ndarray


def rare_tokens(types: np.ndarray, counts: np.ndarray, frequent: np.ndarray) -> Rare:
    """Where the rarest token is, and the two rarest, in sentences whose rarest token is not among
    the most frequent ones (5.3).

    Arrays ``[sentences, tokens]`` without EOS: ``types`` numbers tokens so that equal ones are
    equal, ``counts`` is how often they occur in training, ``frequent`` is true for the most
    frequent ones. Every occurrence of a token counts as that token, and tokens that are equally
    rare share their place.
    """
    least = counts.min(axis=1, keepdims=True)
    rarest = counts == least
    rarest &= (rarest & ~frequent).any(axis=1, keepdims=True)
    more = np.where(rarest, np.iinfo(counts.dtype).max, counts)
    second = more.min(axis=1, keepdims=True)
    kind = np.where(rarest, types, types.min(initial=0) - 1).max(axis=1, keepdims=True)
    one_kind = ((types == kind) | ~rarest).all(axis=1, keepdims=True)
    return Rare(rarest, rarest | (one_kind & (counts == second) & rarest.any(axis=1, keepdims=True)))


def relevance_shares(relevance: np.ndarray, layers: Sequence[int]) -> np.ndarray:
    """A head's share of its layer at each step, the head relevance of A.3 before averaging.

    ``relevance`` ``[steps, heads]``; ``layers[i]`` is the layer of head i, in ascending order.
    Where a rule leaves negative relevance, absolute values are shared out. A layer that is 0 at
    a step gives NaN there.
    """
    size = np.abs(np.asarray(relevance, dtype=np.float64))
    layers = np.asarray(layers)
    first = np.flatnonzero(np.r_[True, layers[1:] != layers[:-1]])
    total = np.add.reduceat(size, first, axis=1)
    widths = np.diff(np.r_[first, len(layers)])
    with np.errstate(invalid="ignore"):
        return size / np.repeat(total, widths, axis=1)


# -- what is concluded ------------------------------------------------------------------


class Thresholds(NamedTuple):
    """From when on a head has a function. Shares and margins are fractions of 1."""

    positional_share: float = POSITIONAL_SHARE
    positional_over: str = "possible"
    """Which share is held against it: over the query tokens for which the position exists
    ("possible"), or over "all", in which a perfect -1 head fails when sentences are short."""
    syntactic_over: str = "pairs"
    """What a case of a relation is: a pair of words (a noun with two adjectives asks twice, so that both
    directions have the same baseline), or one of the asking "words", which may find any related word."""
    margin: float = SYNTACTIC_MARGIN
    margin_kind: str = "points"
    """"points": accuracy - baseline >= margin; "relative": accuracy >= (1 + margin) baseline."""
    rare_share: float = RARE_SHARE
    rare_margin: float = SYNTACTIC_MARGIN
    """How far above chance the share of the two rarest must be, in points."""


EDGE = 1e-9
"""Shares are quotients of counts: 0.9 may come out as 0.8999999999999999 and is 0.9."""


def is_positional(positional: Mapping, limits: Thresholds) -> bool:
    """5.1: the largest weight is at one relative position in at least 90 % of cases; see
    `Thresholds.positional_over` for what a case is."""
    share = positional["share" if limits.positional_over == "all" else "share_possible"]
    return share is not None and share >= limits.positional_share - EDGE


def is_syntactic(accuracy: float | None, baseline: float | None, limits: Thresholds) -> bool:
    """5.2: at least 10 % better than always taking the relation's most frequent position."""
    if accuracy is None or baseline is None:
        return False
    if limits.margin_kind == "relative":
        return accuracy >= baseline * (1 + limits.margin) - EDGE
    return accuracy - baseline >= limits.margin - EDGE


def is_rare(two_rarest: float | None, chance: float | None, limits: Thresholds) -> bool:
    """5.3: the largest weight is on one of the two rarest tokens in more than half of cases, and
    clearly more often than equal weights would have it (in short sentences that is often)."""
    if two_rarest is None:
        return False
    return two_rarest > limits.rare_share - EDGE and two_rarest - chance >= limits.rare_margin - EDGE


class Function(NamedTuple):
    """One function of a head, as a text in ``heads.json``: ``positional -1``, ``syntactic nsubj
    h->d``, ``rare words``."""

    kind: str
    """"positional", "syntactic" or "rare"."""
    detail: str = ""
    """Relative position with its sign, or relation."""
    direction: str = ""

    def __str__(self):
        if self.kind == "rare":
            return "rare words"
        return " ".join(part for part in self if part)

    @classmethod
    def parse(cls, text: str) -> "Function":
        """The inverse of ``str``."""
        kind, *rest = text.split()
        return cls(kind) if kind == "rare" else cls(kind, *rest)


def functions(record: Mapping, limits: Thresholds) -> list[str]:
    """The functions of a head whose measures ``record`` holds, in the form of ``heads.json``."""
    found = []
    if is_positional(record["positional"], limits):
        found.append(Function("positional", f"{record['positional']['offset']:+d}"))
    for relation, directions in (record["syntactic"] or {}).items():
        for direction, measured in directions.items():
            if is_syntactic(measured["accuracy"], measured["baseline"], limits):
                found.append(Function("syntactic", relation, direction))
    rare = record["rare"]
    if rare and is_rare(rare["two_rarest"], rare["two_rarest_chance"], limits):
        found.append(Function("rare"))
    return [str(function) for function in found]


def most_frequent(counts: Mapping[int, float]) -> tuple[int | None, float]:
    """The position with the largest count, the one nearest to 0 (then the negative one) of equal
    ones; (None, 0) when nothing was counted."""
    best = max(counts, key=lambda offset: (counts[offset], -abs(offset), -offset), default=None)
    return (best, counts[best]) if best is not None and counts[best] > 0 else (None, 0)
