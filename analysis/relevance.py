"""Tables of head relevance, several rules side by side: heat maps, agreement, dominance.

Reads what ``fairseq-generate --head-relevance RULE --relevance-table FILE`` writes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import rankdata

from fairseq_headprune.analysis.head_table import HeadTable
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.dump import Dump
from fairseq_headprune.recording import relevance_table as averages
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, HeadLayout, flag


@dataclass(frozen=True)
class RelevanceTable:
    """Mean shares of one rule. ``shares[type]`` is ``[layers, heads]``: absolute values, so that
    a layer adds up to 1 and the signed epsilon rule has an order too."""

    rule: str
    provenance: Mapping[str, Any]
    counts: Mapping[str, int]
    layout: HeadLayout
    shares: dict[str, np.ndarray]


def read(path) -> RelevanceTable:
    """Read one file; UserError when it is something else."""
    data = files.read_json(path, "a table of --relevance-table")
    try:
        table = RelevanceTable(
            data["provenance"]["options"]["relevance"]["rule"],
            data["provenance"],
            dict(data["counts"]),
            HeadLayout.from_dict(data["layout"], str(path)),
            {t: np.asarray(data["magnitude"][t], dtype=float) for t in ATTENTION_TYPES},
        )
        for what in ("model", "data"):
            dict(table.provenance[what])
        # file names are made of it
        whole = re.fullmatch(r"[\w-]+", table.rule) and all(
            np.isfinite(table.shares[t]).all() and _holds(table.shares[t], table.layout[t])
            for t in ATTENTION_TYPES
        )
    except UserError:
        raise
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise UserError(
            f"{path} is not a table of fairseq-generate --relevance-table, or is damaged: make it anew"
        )
    return table


def _holds(shares: np.ndarray, layers) -> bool:
    """Whether an array ``[layers, heads]`` has a value for each head."""
    last = max((head for layer in layers for head in layer), default=-1)
    if not len(layers):
        return shares.size == 0
    return shares.ndim == 2 and len(shares) == len(layers) and last < shares.shape[1]


def check_alike(tables: Sequence[RelevanceTable]) -> None:
    """UserError unless all tables are of one model and one text, and each of another rule."""
    rules = [table.rule for table in tables]
    for rule in rules:
        if rules.count(rule) > 1:
            raise UserError(f"two tables are of the rule {rule}: give one table of each rule")
    for table in tables[1:]:
        for what in ("model", "data"):
            if _identity(table, what) != _identity(tables[0], what):
                raise UserError(
                    f"the tables of {tables[0].rule} and {table.rule} are of different {what}: "
                    "give tables that differ in their rule only"
                )


def _identity(table, what):
    return table.provenance[what].get("sha256", table.provenance[what])


def head_table(table: RelevanceTable) -> HeadTable:
    """In the form that figures are drawn from."""
    records = {
        head: {"relevance": float(table.shares[head.type][head.layer, head.head])} for head in table.layout
    }
    return HeadTable(table.rule, "", {"layout": table.layout.to_dict()}, None, records)


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Rank correlation, ties sharing their mean rank; None when one side has no order."""
    x, y = rankdata(a) - (len(a) + 1) / 2, rankdata(b) - (len(b) + 1) / 2
    norm = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / norm) if norm else None


def agreement(one: RelevanceTable, two: RelevanceTable) -> dict[str, dict[str, Any]]:
    """Per type, how alike two rules rank heads.

    ``all``: over the heads of all layers, by share of the layer. ``layers``: within each layer, and
    ``mean`` of these. ``same_top``: layers whose most relevant head is the same.
    """
    result = {}
    for type in one.layout.types:
        every = [head for head in one.layout if head.type == type]
        layers = [(n, list(heads)) for n, heads in enumerate(one.layout[type]) if len(heads) > 1]
        rows = [(one.shares[type][n, heads], two.shares[type][n, heads]) for n, heads in layers]
        within = [spearman(a, b) for a, b in rows]
        result[type] = {
            "all": spearman(
                [one.shares[type][h.layer, h.head] for h in every],
                [two.shares[type][h.layer, h.head] for h in every],
            ),
            "layers": within,
            "mean": _mean(within),
            "same_top": sum(int(a.argmax() == b.argmax()) for a, b in rows),
            "of": len(rows),
        }
    return result


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def dominance(table: RelevanceTable) -> dict[str, list[dict[str, float]]]:
    """Per type and layer, how far a few heads stand out.

    ``first`` and ``two``: share of the most relevant head and of the best two together, to be
    compared with ``uniform``, 1 / heads; ``effective``: exp of the entropy of the shares, the number
    of equally relevant heads that would spread as much.
    """
    result: dict[str, list[dict[str, float]]] = {}
    for type in table.layout.types:
        result[type] = []
        for layer, heads in enumerate(table.layout[type]):
            if not heads:
                continue
            shares = np.sort(table.shares[type][layer, list(heads)])[::-1]
            shares = shares / shares.sum()
            positive = shares[shares > 0]
            result[type].append(
                {
                    "layer": layer,
                    "heads": len(heads),
                    "uniform": 1 / len(heads),
                    "first": float(shares[0]),
                    "two": float(shares[:2].sum()),
                    "effective": float(np.exp(-(positive * np.log(positive)).sum())),
                }
            )
    return result


def top_heads(table: RelevanceTable, type: str, count: int = 5) -> list[Head]:
    """The heads of a type with the largest shares of their layers."""
    heads = [head for head in table.layout if head.type == type]
    return sorted(heads, key=lambda h: (-table.shares[type][h.layer, h.head], h))[:count]


def split_half(dump: Dump) -> tuple[RelevanceTable, ...]:
    """Two halves of the sentences of a dump with relevance, those of even and of odd number, as
    tables: how well they agree is as well as rules can be expected to."""
    options = dump.manifest["options"].get("relevance")
    rule = options.get("rule") if isinstance(options, dict) else None
    if set(dump.contents["relevance"]) != set(ATTENTION_TYPES) or not isinstance(rule, str):
        raise UserError(f"{dump.directory} has no relevance: make it with --head-relevance")
    halves = [averages.RelevanceTable(dump.layout) for _ in range(2)]
    for record in dump:
        halves[record.id % 2].add(record.relevance)
    if not all(half.steps for half in halves):
        raise UserError(f"{dump.directory} has too few sentences to be split into two halves: dump more")
    return tuple(
        RelevanceTable(
            rule,
            dump.manifest,
            {"sentences": half.sentences, "steps": half.steps},
            dump.layout,
            half.magnitudes(),
        )
        for half in halves
    )


def compare(tables: Sequence[RelevanceTable], halves=()) -> dict[str, Any]:
    """Everything above for several rules, as it is saved. ``halves``: pairs of `split_half`."""
    check_alike(tables)
    return {
        "model": tables[0].provenance["model"],
        "data": tables[0].provenance["data"],
        "counts": {table.rule: dict(table.counts) for table in tables},
        "agreement": [
            {"rules": [a.rule, b.rule], **agreement(a, b)} for a, b in [*combinations(tables, 2), *halves]
        ],
        "dominance": {table.rule: dominance(table) for table in tables},
        "top": {
            table.rule: {t: [str(head) for head in top_heads(table, t)] for t in table.layout.types}
            for table in tables
        },
    }


def markdown(comparison: Mapping[str, Any]) -> str:
    """The comparison as two tables for a page."""
    lines = ["| rules | type | all heads | within layers, mean | same first head |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for pair in comparison["agreement"]:
        for type in (t for t in ATTENTION_TYPES if t in pair):
            row = pair[type]
            one, two = pair["rules"]
            cells = [f"{one}, two halves" if one == two else f"{one} and {two}", flag(type)]
            cells += ["-" if row[k] is None else f"{row[k]:.2f}" for k in ("all", "mean")]
            cells.append(f"{row['same_top']} of {row['of']}")
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| rule | type | first head, by layer | best two | effective heads |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for rule, types in comparison["dominance"].items():
        for type in types:
            columns = [
                " ".join(f"{row[key]:.{digits}f}" for row in types[type])
                for key, digits in (("first", 2), ("two", 2), ("effective", 1))
            ]
            lines.append(f"| {rule} | {flag(type)} | {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"
