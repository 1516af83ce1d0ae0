"""From tables to one HTML file that needs nothing else."""

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_headprune.analysis import maps
from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.analysis.figures import style
from fairseq_headprune.analysis.head_table import HeadTable
from fairseq_headprune.analysis.report.claims import claim
from fairseq_headprune.units.layout import flag

FOLDER = Path(__file__).resolve().parent
SCRIPTS = ("page.js", "details.js", "map.js")


def head_data(table: HeadTable, ablation: Mapping[str, Any] | None) -> dict[str, Any]:
    """Head -> what the grid, the tables and the details show of it."""
    off = ablation_table.by_head(ablation)
    alone = ablation_table.by_head(ablation, "alone")
    found = {}
    for head, record in table.records.items():
        functions = table.functions(head)
        found[str(head)] = {
            "type": head.type,
            "layer": head.layer,
            "head": head.head,
            "functions": list(record["functions"]),
            "kinds": style.kinds(functions),
            "short": [style.function_text(f) for f in functions],
            "relevance": record.get("relevance"),
            "confidence": record["confidence"],
            "offset": record["positional"]["offset"],
            "share": record["positional"]["share"],
            "gain": best_gain(record),
            "two_rarest": (record.get("rare") or {}).get("two_rarest"),
            "loss": off[head]["difference"] if head in off else None,
            "loss_low": off[head]["low"] if head in off else None,
            "loss_high": off[head]["high"] if head in off else None,
            "bleu": off[head].get("bleu_difference") if head in off else None,
            "claim": claim(table, head, off.get(head), alone.get(head), ablation),
        }
    return found


def best_gain(record: Mapping[str, Any]) -> float | None:
    """The largest gain over the baseline among all relations and directions."""
    gains = [
        m["gain"]
        for d in (record.get("syntactic") or {}).values()
        for m in d.values()
        if m["gain"] is not None
    ]
    return max(gains, default=None)


def page_data(table: HeadTable, ablation=None, attention: maps.Maps | None = None) -> dict[str, Any]:
    """All that the page's scripts read."""
    grids = []
    for type in table.types():
        rows = [
            [str(h) for h in sorted(table.sorted_layer(type, layer), key=lambda h: h.head)]
            for layer in range(table.layers(type))
        ]
        grids.append({"type": type, "title": style.TYPES[type]["label"], "flag": flag(type), "rows": rows})
    looks = {
        kind: {"color": look.color, "text": look.text, "name": look.name}
        for kind, look in style.FUNCTIONS.items()
    }
    return {
        "grids": grids,
        "heads": head_data(table, ablation),
        "looks": looks,
        "maps": [_map_data(sentence) for sentence in attention.sentences] if attention else [],
        "provenance": {
            "roles": dict(table.provenance),
            "ablation": dict(ablation["provenance"]) if ablation else None,
            "maps": dict(attention.provenance) if attention else None,
        },
    }


def _map_data(sentence: maps.Sentence) -> dict[str, Any]:
    data = maps.to_json(sentence)
    data["labels"] = {type: list(sentence.labels(type)) for type in sentence.weights}
    return data


def embed(data: Any) -> str:
    """JSON that cannot end the script element it stands in, nor open a comment there."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    for sign, code in (
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u2028", "\\u2028"),
        ("\u2029", "\\u2029"),
    ):
        text = text.replace(sign, code)
    return text


def build(table: HeadTable, ablation=None, attention=None, title: str | None = None) -> str:
    """The whole page."""
    parts = {
        "TITLE": html.escape(title or f"Attention heads of {table.label}"),
        "STYLE": (FOLDER / "page.css").read_text(encoding="utf-8"),
        "DATA": embed(page_data(table, ablation, attention)),
        "SCRIPT": "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS),
    }
    text = (FOLDER / "page.html").read_text(encoding="utf-8")
    before, *rest = text.split("@@")
    pieces = [before]
    for i, piece in enumerate(rest):
        # what was put in is never searched for further marks
        pieces.append(parts[piece] if i % 2 == 0 else piece)
    return "".join(pieces)
