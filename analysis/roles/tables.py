"""From tallies to heads.json and its tables. README.md describes every key."""

import csv
import io
import json
from collections.abc import Mapping

import numpy as np

from fairseq_headprune.analysis.roles.heads import (
    Thresholds,
    functions,
    is_rare,
    most_frequent,
)
from fairseq_headprune.analysis.roles.shares import NOTHING, number, share_of
from fairseq_headprune.analysis.roles.syntax import relations_of, syntactic
from fairseq_headprune.analysis.roles.tallies import COARSE, FAR, NEAR
from fairseq_headprune.base.intervals import GROUPS, Bootstrap


def build(dump, analysis, limits: Thresholds, resamples: int, level: float, seed: int) -> dict:
    """``{"relations": ..., "heads": [...]}`` of a finished pass."""
    groups = min(GROUPS, max(1, analysis.counts["sentences"]))
    draws = Bootstrap(groups, resamples, level, seed)
    relations = syntax = None
    if analysis.syntax is not None:
        relations = relations_of(analysis, limits, draws, groups)
        coarse = Bootstrap(min(groups, COARSE), resamples, level, seed)
        syntax = syntactic(analysis, relations, limits, draws, coarse)
    heads: list[dict] = []
    for type in analysis.types:
        if dump.head_index[type]:
            heads.extend(_heads_of_type(dump, analysis, type, syntax, limits, draws, groups))
    return {"relations": relations, "heads": heads}


def _named(share: Mapping, name: str) -> dict:
    """``{"value", "n", "low", "high"}`` -> ``{name, name_n, name_low, name_high}``."""
    return {name if key == "value" else f"{name}_{key}": value for key, value in share.items()}


def _heads_of_type(dump, analysis, type, syntax, limits, draws, groups) -> list[dict]:
    tally = analysis.by_type[type]
    index = dump.head_index[type]
    queries = tally.queries[:groups]
    confidence = share_of(draws, tally.confidence[:groups], queries)
    relevance = [NOTHING] * len(index)
    if type in analysis.with_relevance:
        relevance = share_of(draws, tally.relevance[:groups], tally.steps[:groups])
    positional = _positional(tally, draws, groups)
    per_head = rare = [None] * len(index)
    if type == "enc_self" and syntax is not None:
        per_head = syntax
    if type == "enc_self" and analysis.rare is not None:
        rare = _rare(analysis.rare, limits, draws, groups)
    rows = max(1.0, queries.sum())
    records = []
    for i, (layer, head) in enumerate(index):
        record = {"type": type, "layer": layer, "head": head}
        record.update(_named(relevance[i], "relevance"))
        record.update(_named(confidence[i], "confidence"))
        record["max_weight"] = record["confidence"]
        record["ties"] = number(tally.shared[i] / rows)
        record["blank"] = number(tally.blank[i] / rows)
        record["positional"] = positional[i]
        record["syntactic"] = per_head[i]
        record["rare"] = rare[i]
        record["functions"] = functions(record, limits)
        records.append(record)
    return records


def _positional(tally, draws, groups) -> list[dict]:
    all_votes, all_chances = tally.all_votes(), tally.all_chances()
    heads = np.arange(len(all_votes))
    best = [most_frequent({int(i) - FAR: votes[i] for i in np.flatnonzero(votes)}) for votes in all_votes]
    # Heads without any vote, and positions too far away for an interval, look at 0 for a start.
    near = [offset is not None and abs(offset) <= NEAR for offset, _ in best]
    column = np.array([offset + NEAR if ok else NEAR for (offset, _), ok in zip(best, near)])
    sums = tally.votes[:groups][:, heads, column]
    shares = share_of(draws, sums, tally.queries[:groups], name="share")
    possible = share_of(draws, sums, tally.chances[:groups][:, column], "_possible", name="share")
    result = []
    for (offset, votes), ok, entry, of_possible in zip(best, near, shares, possible):
        entry.update(of_possible)
        if not ok:
            n, chances = entry["n"], 0 if offset is None else int(all_chances[offset + FAR])
            entry = dict.fromkeys(entry)
            entry.update(n=n, n_possible=chances)
            if offset is not None:
                entry.update(share=number(votes / n), share_possible=number(votes / chances))
        result.append({"offset": offset, **entry})
    return result


def _rare(tally, limits, draws, groups) -> list[dict]:
    hits = tally.hits[:, :groups]
    queries = tally.queries[:groups]
    rows = queries.sum()
    chances = [number(c / rows) if rows else None for c in tally.chance.sum(axis=1)]
    result: list[dict] = [{"n": int(rows)} for _ in range(hits.shape[2])]
    for kind, name in enumerate(("rarest", "two_rarest")):
        for head, share in enumerate(share_of(draws, hits[kind], queries)):
            entry = _named(share, name)
            del entry[f"{name}_n"]
            result[head].update(entry, **{f"{name}_chance": chances[kind]})
    for entry in result:
        entry["rare"] = is_rare(entry["two_rarest"], entry["two_rarest_chance"], limits)
    return result


# -- as files ---------------------------------------------------------------------------


def to_json(content: Mapping) -> str:
    """The text of heads.json: indented, with short lists and records of numbers on one line."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def flat(record: Mapping) -> dict:
    """A record of ``heads`` as one row: nested keys joined by ``_``, functions by ``; ``."""
    row: dict = {}

    def put(prefix, value):
        if isinstance(value, Mapping):
            for key, inside in value.items():
                put(f"{prefix}_{key}" if prefix else key, inside)
        else:
            row[prefix] = "; ".join(value) if isinstance(value, list) else value

    put("", {key: value for key, value in record.items() if value is not None})
    return row


def to_csv(rows: list[Mapping]) -> str:
    """CSV text of rows that need not have the same keys; the first row's order leads."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    if "functions" in names:
        names.pop("functions")
        names["functions"] = None
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def tables(content: Mapping) -> dict[str, str]:
    """The tables beside heads.json, file name -> text: heads.csv (a row per head), relations.csv
    (Figure 3: a row per relation, direction and relative position) and syntactic.csv (Table 1 and
    Figure 4: a row per head, relation and direction)."""
    made = {"heads.csv": to_csv([flat(record) for record in content["heads"]])}
    if content["relations"] is None:
        return made
    positions, scores = [], []
    for relation, directions in content["relations"].items():
        for direction, entry in directions.items():
            for offset, count in entry["histogram"].items():
                positions.append(
                    {
                        "relation": relation,
                        "direction": direction,
                        "offset": int(offset),
                        "pairs": count,
                        "share": round(count / entry["pairs"], 6),
                    }
                )
    for record in content["heads"]:
        for relation, directions in (record["syntactic"] or {}).items():
            for direction, measured in directions.items():
                scores.append(
                    {
                        "relation": relation,
                        "direction": direction,
                        **{key: record[key] for key in ("type", "layer", "head")},
                        **flat(measured),
                    }
                )
    made["relations.csv"] = to_csv(positions)
    made["syntactic.csv"] = to_csv(scores)
    return made
