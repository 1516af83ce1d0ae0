"""``headprune match``: several models side by side, their heads matched by what they do."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_headprune.analysis import head_table
from fairseq_headprune.analysis.head_table import HeadTable
from fairseq_headprune.analysis.matching import pairs as matching
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import folder
from fairseq_headprune.units.layout import ATTENTION_TYPES, flag, parse_types

KINDS = ("positional", "syntactic", "rare")


def add_arguments(parser):
    """Options of the command."""
    parser.add_argument(
        "heads",
        nargs="+",
        metavar="[NAME=]FILE",
        help="heads.json of each model; the others are matched with the first",
    )
    parser.add_argument(
        "--dumps",
        nargs="+",
        metavar="NAME=DIR",
        help="dumps of the same sentences, to match by attention as well",
    )
    parser.add_argument("--sentences", type=int, default=200, help="how many shared sentences to compare")
    parser.add_argument("--types", default="enc-self", help="enc-self (default), dec-self, dec-enc or all")
    parser.add_argument(
        "--attention-weight", type=float, default=0.5, help="weight of attention beside role, 0 to 1"
    )
    parser.add_argument(
        "--least", type=float, default=0.6, help="similarity below which heads stay unmatched"
    )
    parser.add_argument("--same-layer", action="store_true", help="match within a layer only")
    parser.add_argument(
        "--out",
        required=True,
        type=folder("--out"),
        help="folder for compare.json, compare.csv and compare.md",
    )


def run(args):
    """Run the command."""
    if len(args.heads) < 2:
        raise UserError("compare needs at least two heads.json files")
    for name in ("attention_weight", "least"):
        if not 0 <= getattr(args, name) <= 1:
            raise UserError(f"--{name.replace('_', '-')} must lie between 0 and 1, not {getattr(args, name)}")
    if args.sentences < 1:
        raise UserError(f"--sentences must be at least 1, not {args.sentences}")
    tables = head_table.read_all(args.heads)
    dumps = _open_dumps(args.dumps or [], tables)
    types = [t for t in parse_types(args.types) if tables[0].of(t)]
    if not types:
        raise UserError(f"--types {args.types}: {tables[0].path} has no such heads")
    first, others = tables[0], tables[1:]
    result = {
        "provenance": {
            "program": "analysis compare",
            "arguments": sys.argv[2:],
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "options": {
                n: getattr(args, n) for n in ("sentences", "types", "attention_weight", "least", "same_layer")
            },
        },
        "models": [model_summary(table) for table in tables],
        "matchings": [
            match_models(first, other, type, args, dumps.get(first.label), dumps.get(other.label))
            for other in others
            for type in types
            if other.of(type)
        ],
    }
    out = Path(args.out)
    files.write_json(out / "compare.json", result)
    rows = csv_rows(result)
    files.write_csv(out / "compare.csv", rows, list(rows[0]) if rows else ["type"])
    text = readable(result)
    files.write_text(out / "compare.md", text)
    print(text)


def _open_dumps(texts: Sequence[str], tables: Sequence[HeadTable]):
    from fairseq_headprune.dump import open_dump

    dumps = {}
    labels = [table.label for table in tables]
    for text in texts:
        label, path = head_table.split_label(text)
        if label not in labels:
            raise UserError(
                f"--dumps {text}: no heads.json is called '{label}', there are {', '.join(labels)}"
            )
        dumps[label] = open_dump(path)
    if dumps and not (labels[0] in dumps and len(dumps) > 1):
        raise UserError(
            f"--dumps must name a dump of '{labels[0]}', the first model, and of one that it is compared with"
        )
    return dumps


def model_summary(table: HeadTable) -> dict[str, Any]:
    """What one model has: heads by type, encoder heads by function, the best head per relation."""
    counts = {kind: 0 for kind in KINDS}
    several = none = 0
    for head in table.of("enc_self"):
        kinds = {f.kind for f in table.functions(head)}
        for kind in kinds:
            counts[kind] += 1
        several += len(kinds) > 1
        none += not kinds
    best = {}
    for relation, directions in (table.relations or {}).items():
        for direction in directions:
            found = table.best(relation, direction)
            if found:
                head, m = found
                best[f"{relation} {direction}"] = {
                    "head": str(head),
                    **{k: m[k] for k in ("accuracy", "low", "high", "baseline", "n")},
                }
    return {
        "label": table.label,
        "file": table.path,
        "model": dict(table.provenance.get("model") or {}),
        "heads": {t: len(table.of(t)) for t in ATTENTION_TYPES},
        "functions": {**counts, "several kinds": several, "none": none},
        "best": best,
    }


def match_models(first, other, type, args, dump: Any | None, other_dump: Any | None) -> dict[str, Any]:
    """One model's heads of a type matched with another's; what chance would give stands beside it."""
    role, heads, others = matching.matrix(first.of(type), other.of(type))
    attention, shared = None, 0
    if dump is not None and other_dump is not None:
        from fairseq_headprune.analysis.matching.shared_sentences import mean_similarity, spread

        attention, shared = mean_similarity(dump, other_dump, type, args.sentences)
        index = (dump.head_index[type], other_dump.head_index[type])
        attention = spread(attention, index, (heads, others))
        if attention is None and type == "enc_self":
            raise UserError(f"--dumps: those of {first.label} and {other.label} share no sentence")
    similarity = matching.combine(role, attention, args.attention_weight)
    if args.same_layer:
        layers = np.array([h.layer for h in heads])[:, None] == np.array([h.layer for h in others])[None]
        similarity = np.where(layers, similarity, 0.0)
    matches = matching.match(similarity, heads, others, args.least)
    # Same number and layer: what indices alone would have given.
    kept = [(i, others.index(h)) for i, h in enumerate(heads) if h in others]
    paired = [m for m in matches if m.other]
    return {
        "first": first.label,
        "other": other.label,
        "type": type,
        "shared_sentences": shared,
        "matched": len(paired),
        "unmatched": len(heads) - len(paired),
        "same_number": sum(m.head == m.other for m in paired),
        "similarity": _mean([m.similarity for m in paired]),
        "similarity_of_same_numbers": _mean([similarity[i, j] for i, j in kept]),
        "similarity_of_all_pairs": _mean(similarity[~np.isnan(similarity)].ravel().tolist()),
        "pairs": [_pair(m, first, other, role, attention, heads, others) for m in matches],
        "only_in_other": [str(h) for h in others if h not in {m.other for m in paired}],
    }


def _mean(values) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _pair(m, first, other, role, attention, heads, others) -> dict[str, Any]:
    i = heads.index(m.head)
    mine = list(first.records[m.head]["functions"])
    record: dict[str, Any] = {
        "head": str(m.head),
        "functions": mine,
        "other": None,
        "similarity": m.similarity,
    }
    if m.other is None:
        return record
    j = others.index(m.other)
    theirs = list(other.records[m.other]["functions"])
    both = attention is not None and not np.isnan(attention[i, j])
    return {
        **record,
        "other": str(m.other),
        "other_functions": theirs,
        "shared_functions": [f for f in mine if f in theirs],
        "role_similarity": None if np.isnan(role[i, j]) else float(role[i, j]),
        "attention_similarity": float(attention[i, j]) if both else None,
        "relevance": first.records[m.head].get("relevance"),
        "other_relevance": other.records[m.other].get("relevance"),
    }


def csv_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per head of the first model and other model."""
    rows = []
    for matching_ in result["matchings"]:
        for pair in matching_["pairs"]:
            row = {"first": matching_["first"], "other_model": matching_["other"], "type": matching_["type"]}
            for key in (
                "head",
                "functions",
                "other",
                "other_functions",
                "similarity",
                "role_similarity",
                "attention_similarity",
                "relevance",
                "other_relevance",
            ):
                value = pair.get(key)
                row[key] = "; ".join(value) if isinstance(value, list) else value
            rows.append(row)
    return rows


def readable(result: Mapping[str, Any]) -> str:
    """Markdown for people: models side by side, then what matches what."""
    models = result["models"]
    rows = [["", *[m["label"] for m in models]]]
    rows += [
        [f"{flag(t)} heads", *[str(m["heads"][t]) for m in models]]
        for t in ATTENTION_TYPES
        if any(m["heads"][t] for m in models)
    ]
    for name in models[0]["functions"]:
        title = f"encoder heads: {'no function' if name == 'none' else name}"
        rows.append([title, *[str(m["functions"][name]) for m in models]])
    for name in dict.fromkeys(name for m in models for name in m["best"]):
        cells = []
        for m in models:
            best = m["best"].get(name)
            cells.append(
                f"{best['accuracy']:.2f} ({best['baseline']:.2f}) {best['head'].split(':', 1)[1]}"
                if best
                else "–"
            )
        rows.append([f"{name}: best accuracy (baseline) head", *cells])
    text = ["# Models side by side\n", files.markdown(rows)]
    for m in result["matchings"]:
        text.append(f"## {flag(m['type'])}: {m['first']} and {m['other']}\n")
        by = f"role and attention on {m['shared_sentences']} sentences" if m["shared_sentences"] else "role"
        text.append(
            f"{m['matched']} of {m['matched'] + m['unmatched']} heads matched by {by}, "
            f"{m['same_number']} of them "
            f"with the same layer and number. Mean similarity {_two(m['similarity'])}; of heads with the "
            f"same "
            f"number {_two(m['similarity_of_same_numbers'])}; of all pairs "
            f"{_two(m['similarity_of_all_pairs'])}.\n"
        )
        pairs = sorted(
            (p for p in m["pairs"] if p["functions"] or p.get("other_functions")),
            key=lambda p: -(p["similarity"] or 0),
        )
        rows = [[m["first"], "functions", m["other"], "functions", "similarity"]]
        rows += [
            [
                p["head"],
                ", ".join(p["functions"]) or "–",
                p["other"] or "none",
                ", ".join(p.get("other_functions") or []) or "–",
                _two(p["similarity"]),
            ]
            for p in pairs
        ]
        text.append(files.markdown(rows, left=4) if pairs else "No head of either has a function.\n")
    return "\n".join(text)


def _two(value) -> str:
    return "–" if value is None else f"{value:.2f}"
