"""What can be wrong with a sweep, found before its first command runs."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.experiments.commands import Budget
from fairseq_headprune.experiments.points import SETTINGS, Point, needs
from fairseq_headprune.selection import scores
from fairseq_headprune.translation.scoring import read_lines, sentences_in
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout, parse_types
from fairseq_headprune.units.target import check_target, check_translates, parse_target

MAY_BE_ZERO = ("scratch_warmup", "l0_warmup_updates", "label_smoothing")


def check_budget(budget: Budget) -> None:
    """UserError for a number that no training could use."""
    for name in Budget.__dataclass_fields__:
        value = getattr(budget, name)
        if name == "extra":
            continue
        low = 0 if name in MAY_BE_ZERO else math.ulp(0.0)
        if not low <= value < math.inf:
            least = "0 or more" if name in MAY_BE_ZERO else "above 0"
            raise UserError(f"--{name.replace('_', '-')} must be a number {least}, not {value}")


def check_sets(tests: Sequence[Any], elsewhere: Sequence[Any], data: str) -> None:
    """UserError for a set without sentences or references to match, or two sets of one name."""
    for name, count in Counter(t.name for t in (*tests, *elsewhere)).items():
        if count > 1 or name == "together":
            why = "names all sets as one" if name == "together" else "is given twice"
            raise UserError(f"the name '{name}' of --test or --elsewhere {why}: choose another")
    for test in (*tests, *elsewhere):
        count = sentences_in(test.data or data, test.subset)
        lines = read_lines(test.references) if test.references else None
        if lines is None:
            continue
        if len(lines) != count:
            raise UserError(
                f"{test.references} has {len(lines)} lines, the set {test.name} has {count} sentences"
            )
        if any("@@ " in line for line in lines):
            raise UserError(f"the references {test.references} are BPE pieces (@@): give detokenised text")


def check_points(points: Sequence[Point], out: Path) -> None:
    """UserError for an unknown criterion, or a point that builds on one that does not exist."""
    names = {p.name for p in points}
    for point in points:
        source = needs(point)
        if source and source not in names and not (out / source / "layout.json").exists():
            raise UserError(f"point {point.name} needs {source}, which is neither in this sweep nor in {out}")
        if point.criterion:
            scores.check_criterion(point.criterion)


def check_targets(points: Sequence[Point], existing: HeadLayout) -> None:
    """UserError for a point of more heads than the baseline has, or of none to translate with."""
    options = {"l0-target": "--targets", "keep": "--keep", "criterion": "--counts"}
    settings = {p.name: p.setting for p in points}
    counts = existing.counts()
    for point in points:
        if point.method not in options:
            continue
        target, option = parse_target(point.target), f"{options[point.method]} {point.target}"
        # gates that an earlier sweep made may be of any type
        setting = settings.get(point.source, "all") if point.method == "keep" else point.setting
        gated = (
            ATTENTION_TYPES if point.method == "criterion" else parse_types(SETTINGS[setting]["gate_types"])
        )
        check_target(target, {t: counts[t] for t in gated}, option)
        check_translates(target, option)


def check_sweep(sweep: Any, points: Sequence[Point]) -> Mapping[str, Any]:
    """All of it for a ``run.Sweep``; returns the baseline's checkpoint, which was read for it."""
    check_budget(sweep.budget)
    check_points(points, sweep.out)
    check_sets(sweep.tests, sweep.elsewhere, sweep.data)
    state = checkpoints.load_checkpoint(sweep.baseline)
    check_targets(points, checkpoints.existing_layout(state))
    return state
