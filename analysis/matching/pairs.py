"""Which head of one model is which of another: similarity by role and by attention, and matching.

The numbers of heads say nothing across training runs, since heads of a layer can be permuted without
changing the model, and a function may move to another layer. Pure functions on records and arrays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from fairseq_headprune.units.layout import Head

GROUPS = ("functions", "positional", "syntactic", "rare", "confidence")


def role_vector(record: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Group -> named measures between 0 and 1; a measure that was not taken has no entry.

    Functions: 1 for each that the head has. Positional: the share at the head's own relative
    position (nothing at others). Syntactic: accuracy by relation and direction. Rare: share on the
    two rarest tokens. Relevance is left out: it is a share of the layer, and so depends on how many
    heads the layer has.
    """
    vector: dict[str, dict[str, float]] = {"functions": {f: 1.0 for f in record["functions"]}}
    positional = record.get("positional") or {}
    if positional.get("share") is not None:
        vector["positional"] = {f"{positional['offset']:+d}": positional["share"]}
    syntactic = {}
    for relation, directions in (record.get("syntactic") or {}).items():
        for direction, measured in directions.items():
            if measured["accuracy"] is not None:
                syntactic[f"{relation} {direction}"] = measured["accuracy"]
    if syntactic:
        vector["syntactic"] = syntactic
    rare = record.get("rare") or {}
    if rare.get("two_rarest") is not None:
        vector["rare"] = {"two_rarest": rare["two_rarest"]}
    if record.get("confidence") is not None:
        vector["confidence"] = {"confidence": record["confidence"]}
    return vector


def role_similarity(one: Mapping[str, Mapping[str, float]], two: Mapping[str, Mapping[str, float]]) -> float:
    """1 for equal roles, 0 for opposite ones: 1 minus the mean over groups of the mean difference.

    Measures that one of the heads lacks are left out; a position that is not a head's own counts as
    0 there; of functions, the share that both have. NaN without anything in common to compare.
    """
    distances = []
    for group in GROUPS:
        a, b = one.get(group), two.get(group)
        if a is None or b is None:
            continue
        if group == "functions":
            if a or b:  # two heads without any are not alike for that
                distances.append(1 - len(set(a) & set(b)) / len(set(a) | set(b)))
            continue
        if group == "positional":
            keys = set(a) | set(b)
            distances.append(max(abs(a.get(k, 0.0) - b.get(k, 0.0)) for k in keys))
            continue
        keys = set(a) & set(b)
        if keys:
            distances.append(sum(abs(a[k] - b[k]) for k in keys) / len(keys))
    return 1 - sum(distances) / len(distances) if distances else float("nan")


def entropy(p: np.ndarray) -> np.ndarray:
    """Entropy in bits over the last axis; 0 log 0 is 0."""
    return -(p * np.log2(np.where(p > 0, p, 1))).sum(-1)


def attention_similarity(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """1 minus the Jensen-Shannon divergence (bits, 0 to 1) of every pair of heads, mean over queries.

    ``one`` ``[A, queries, keys]``, ``two`` ``[B, queries, keys]`` with rows that sum to 1; returns
    ``[A, B]``.
    """
    one, two = one.astype(np.float64), two.astype(np.float64)
    own_one, own_two = entropy(one), entropy(two)
    found = np.empty((len(one), len(two)))
    for i, head in enumerate(one):
        together = entropy((head[None] + two) / 2)
        found[i] = 1 - (together - (own_one[i] + own_two) / 2).mean(-1)
    return found


class Match(NamedTuple):
    """A head of the first model and its counterpart, None when nothing is alike enough."""

    head: Head
    other: Head | None
    similarity: float | None


def match(similarity: np.ndarray, heads: Sequence[Head], others: Sequence[Head], least: float) -> list[Match]:
    """The one-to-one matching with the largest sum (Hungarian method); pairs below ``least`` are
    taken apart again. ``similarity`` ``[heads, others]``; NaN counts as 0."""
    similarity = np.nan_to_num(similarity, nan=0.0)
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    found = {row: column for row, column in zip(rows, columns) if similarity[row, column] >= least}
    return [
        Match(head, others[found[i]], float(similarity[i, found[i]]))
        if i in found
        else Match(head, None, None)
        for i, head in enumerate(heads)
    ]


def combine(role: np.ndarray, attention: np.ndarray | None, weight: float) -> np.ndarray:
    """Role similarity, and with maps the weighted mean of both; where one is NaN, the other."""
    if attention is None:
        return role
    both = (1 - weight) * role + weight * attention
    return np.where(np.isnan(role), attention, np.where(np.isnan(attention), role, both))


def matrix(
    one: Mapping[Head, Mapping], two: Mapping[Head, Mapping]
) -> tuple[np.ndarray, list[Head], list[Head]]:
    """Role similarity of all pairs ``[heads of one, heads of two]``, and both lists of heads."""
    vectors = [[role_vector(record) for record in records.values()] for records in (one, two)]
    found = np.array([[role_similarity(a, b) for b in vectors[1]] for a in vectors[0]])
    return found.reshape(len(one), len(two)), list(one), list(two)
