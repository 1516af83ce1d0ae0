"""Everything that a figure may be drawn from, read from files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_headprune.analysis import head_table
from fairseq_headprune.analysis import maps as attention_maps
from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.analysis.head_table import HeadTable
from fairseq_headprune.analysis.roles.heads import Function
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.experiments.points import control_in
from fairseq_headprune.units.layout import Head, HeadLayout


class Missing(Exception):
    """A figure cannot be drawn from what was given; the message says what it needs."""


@dataclass(frozen=True)
class Point:
    """One model of a pruning sweep."""

    name: str
    setting: str
    """"enc" (encoder heads pruned, decoder frozen) or "all"."""
    method: str
    """How its heads were chosen: "l0", "l0-target", "keep", "criterion", "control", "baseline",
    "scratch"."""
    layout: HeadLayout
    scores: Mapping[str, Mapping[str, float]]
    compared: Mapping[str, Mapping[str, float]]
    record: Mapping[str, Any]
    functions: dict[Head, list[Function]] | None = None

    @property
    def heads(self) -> dict[str, int]:
        """Number of heads per type."""
        return self.layout.counts()

    @property
    def bleu(self) -> float:
        """BLEU of all its test sets together."""
        return self.scores["together"]["bleu"]

    @property
    def tests(self) -> tuple[str, ...]:
        """The test sets that it was scored on."""
        return tuple(name for name in self.scores if name != "together")

    @property
    def gated(self) -> bool:
        """Whether gates chose the heads, as in the paper."""
        return self.method in ("l0", "l0-target", "keep")

    def against_control(self) -> Mapping[str, float] | None:
        """``difference``, ``low``, ``high`` to the model trained as long without penalty."""
        return self.compared.get(control_in(self.method, self.compared))


@dataclass
class Inputs:
    """What the command line named."""

    tables: list[HeadTable] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    maps: attention_maps.Maps | None = None
    ablation: Mapping[str, Any] | None = None

    def main(self) -> HeadTable:
        """The first heads.json."""
        if not self.tables:
            raise Missing("a heads.json (--heads)")
        return self.tables[0]

    def others(self) -> list[HeadTable]:
        """The others."""
        if len(self.tables) < 2:
            raise Missing("a second heads.json (--heads more than once)")
        return self.tables[1:]

    def syntax(self) -> list[HeadTable]:
        """The tables that were made with parses."""
        self.main()
        tables = [table for table in self.tables if table.relations]
        if not tables:
            raise Missing("a heads.json that was made with parses")
        return tables

    def sweep(self, setting: str, methods: Sequence[str] = ()) -> list[Point]:
        """The points of a setting, most heads first; the whole model belongs to every setting."""
        if not self.points:
            raise Missing("the points of a sweep (--points)")
        chosen = [
            p
            for p in self.points
            if (p.setting == setting or p.method == "baseline") and (not methods or p.method in methods)
        ]
        if not any(p.gated for p in chosen) and not methods:
            raise Missing(f"points of the setting '{setting}'")
        return sorted(chosen, key=lambda p: (-len(p.layout), p.name))


def read_points(folder, roles_folder=None) -> list[Point]:
    """All points of a results folder (one JSON file each); other JSON files there are passed over.

    Functions come from a point's ``functions`` (records with type, layer, head, functions) or from
    ``roles_folder/<name>/heads.json``. UserError for a folder without points.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"--points {folder} is not a folder")
    points = []
    for path in sorted(folder.glob("*.json")):
        record = files.read_json(path, "a point of a sweep")
        if isinstance(record, dict) and {"name", "setting", "method", "layout"} <= set(record):
            points.append(_point(record, path, roles_folder))
    if not points:
        raise UserError(f"--points {folder} holds no JSON file of a sweep's point")
    return points


def _point(record, path, roles_folder) -> Point:
    scores = record.get("scores")
    if not isinstance(scores, dict) or "bleu" not in (scores.get("together") or {}):
        raise UserError(f"{path} has no scores.together.bleu: score the point again")
    functions = None
    if record.get("functions"):
        functions = _functions(record["functions"], path)
    elif roles_folder:
        found = Path(roles_folder) / record["name"] / "heads.json"
        if found.is_file():
            table = head_table.read(f"{record['name']}={found}")
            functions = {head: table.functions(head) for head in table.records}
    layout = HeadLayout.from_dict(record["layout"], f"the layout in {path}")
    return Point(
        record["name"],
        record["setting"],
        record["method"],
        layout,
        scores,
        record.get("compared") or {},
        record,
        functions,
    )


def _functions(records, path) -> dict[Head, list[Function]]:
    try:
        return {
            Head(r["type"], r["layer"], r["head"]): [Function.parse(text) for text in r["functions"]]
            for r in records
        }
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{path}: 'functions' must list records with type, layer, head and functions"
        ) from None


def comparable(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points that were scored on the same sentences: all sets together, and when some points lack
    sets, the first set that every point has, under its name."""
    whole = max((p.tests for p in points), key=len, default=())
    found = {"together": [p for p in points if set(p.tests) == set(whole)]}
    if len(found["together"]) < len(points):
        shared = [test for test in whole if all(test in p.tests for p in points)]
        if shared:
            found[shared[0]] = list(points)
    return found


def pairs_of_layers(layers: int) -> list[tuple[int, ...]]:
    """Adjacent layers two by two, as Figure 10 sums them; the last one alone when odd."""
    return [tuple(range(i, min(i + 2, layers))) for i in range(0, layers, 2)]


def read(args) -> Inputs:
    """From the command's arguments."""
    return Inputs(
        head_table.read_all(args.heads or []),
        read_points(args.points, args.point_roles) if args.points else [],
        attention_maps.read(args.maps) if args.maps else None,
        ablation_table.read(args.ablation) if args.ablation else None,
    )
