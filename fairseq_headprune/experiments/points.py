"""What a sweep consists of: points, as pure data. A point is one pruned model and how to make it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.target import parse_target

SETTINGS = {
    "enc": {"gate_types": "enc-self", "freeze": "decoder"},
    "all": {"gate_types": "all", "freeze": "none"},
}
"""Setting -> gated types and frozen parts: section 6.2 and section 6.3 of the paper."""

LAMBDAS = {
    "enc": (0.001, 0.002, 0.004, 0.006, 0.01, 0.02, 0.05),
    "all": (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1),
}
"""Default grid, in nats per head and target token: from almost no head lost to almost none left."""

METHODS = ("baseline", "control", "l0", "l0-target", "keep", "criterion", "scratch")
"""How a point's heads are chosen:

- ``baseline``: the model as it came, only scored;
- ``control``: all heads kept, trained exactly as a pruned point but without penalty and gates;
- ``l0``: the paper's method at one lambda;
- ``l0-target``: the same with a learned multiplier that aims at a number of heads;
- ``keep``: the most open gates of another point's gated model, so many as asked for;
- ``criterion``: the heads of the baseline that rank highest by another criterion;
- ``scratch``: another point's heads, all weights newly initialised (Table 2, last column).
"""


@dataclass(frozen=True)
class Point:
    """One model of a sweep. ``updates`` is with gates (or their counterpart), ``settle_updates``
    after the heads are gone."""

    name: str
    setting: str
    method: str
    updates: int = 0
    settle_updates: int = 0
    seed: int = 1
    l0_lambda: float = 0.0
    target: str = ""
    """For ``l0-target`` and ``keep``: as --l0-target-heads takes it. For ``criterion``: the counts."""
    source: str = ""
    """For ``keep`` and ``scratch``: the point whose gated model, or layout, is used."""
    criterion: str = ""
    sentences: int = 0
    """That a criterion's scores are taken from, 0 for its default."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; ``sentences`` at its default is left out, as in older run folders."""
        return {k: v for k, v in asdict(self).items() if v or k != "sentences"}

    @property
    def total_updates(self) -> int:
        """Updates since the baseline (or since the start, from scratch) by this point alone."""
        return self.updates + self.settle_updates


def number_name(value: float) -> str:
    """``0.01`` -> ``0.01``: a number as it goes into a folder's name."""
    return f"{value:g}"


def target_name(target: str) -> str:
    """``enc-self=10,dec-self=20`` -> ``enc10-dec20``-like text that is fit for a file name."""
    return re.sub(
        r"[^a-z0-9]+",
        "-",
        target.lower().replace("enc-self=", "e").replace("dec-self=", "d").replace("dec-enc=", "x"),
    ).strip("-")


def in_setting(target: str, setting: str) -> str:
    """A bare count in the encoder-only setting counts encoder heads; other text stays. UserError for 0."""
    if target.strip().isdecimal() and not int(target):
        raise UserError(f"a sweep to {target} heads asks for no head at all: say how many are to stay")
    return f"enc-self={target}" if setting == "enc" and target.isdecimal() else target


def make_grid(
    setting: str,
    updates: int,
    settle_updates: int,
    lambdas: Sequence[float] = (),
    targets: Sequence[str] = (),
    keep: Sequence[str] = (),
    keep_from: str = "",
    criteria: Sequence[tuple[str, str]] = (),
    tuned: bool = False,
    scratch: Sequence[str] = (),
    scratch_updates: int = 0,
    seed: int = 1,
    control: bool = True,
    suffix: str = "",
    sentences: int = 0,
) -> list[Point]:
    """The points of one sweep, every point after those it needs.

    ``suffix`` ends the names of all points that are trained, to keep several recipes apart.

    ``targets`` and ``keep`` are counts as --l0-target-heads takes them; ``criteria`` are pairs of a
    criterion and a count, ``sentences`` what their scores are taken from; ``tuned`` gives those the
    fine-tuning budget of the pruned points.
    UserError for an unknown setting or two points of one name.
    """
    if setting not in SETTINGS:
        raise UserError(f"unknown setting '{setting}': use {' or '.join(SETTINGS)}")
    end = suffix + ("" if seed == 1 else f"-seed{seed}")
    budget = dict(updates=updates, settle_updates=settle_updates, seed=seed)
    points = [Point("baseline", "all", "baseline")]
    if control:
        points.append(Point(f"{setting}-control{end}", setting, "control", **budget))
    l0_points = [
        Point(f"{setting}-l{number_name(v)}{end}", setting, "l0", l0_lambda=v, **budget) for v in lambdas
    ]
    points += l0_points
    for text in targets:
        name = f"{setting}-target-{target_name(text)}{end}"
        points.append(Point(name, setting, "l0-target", target=in_setting(text, setting), **budget))
    if keep and not (keep_from or l0_points):
        raise UserError("--keep needs --keep-from POINT or a --lambdas grid to take the gates from")
    for text in keep:
        source = keep_from or max(l0_points, key=lambda p: p.l0_lambda).name
        points.append(
            Point(
                f"{setting}-keep-{target_name(text)}-of-{source}{end if end not in source else ''}",
                setting,
                "keep",
                source=source,
                target=in_setting(text, setting),
                settle_updates=settle_updates,
                seed=seed,
            )
        )
    for criterion, text in criteria:
        tuning = dict(settle_updates=updates + settle_updates) if tuned else {}
        points.append(
            Point(
                f"{setting}-{criterion}-{target_name(text)}{'-tuned' if tuned else ''}{end}",
                setting,
                "criterion",
                criterion=criterion,
                sentences=0 if criterion == "random" else sentences,
                target=in_setting(text, setting),
                seed=seed,
                **tuning,
            )
        )
    for source in scratch:
        points.append(
            Point(
                f"scratch-{source}{end}",
                setting,
                "scratch",
                updates=scratch_updates,
                source=source,
                seed=seed,
            )
        )
    return check_points(points)


def control_in(method: str, compared: Mapping[str, Any]) -> str | None:
    """Of the models that a finished point is compared with, the name of its control; None without one.
    A model from scratch has none: it is compared with the pruned models of the same heads."""
    return None if method == "scratch" else next((name for name in compared if name != "baseline"), None)


def check_points(points: Sequence[Point]) -> list[Point]:
    """The points, if their names differ and their numbers make sense; UserError otherwise."""
    seen: dict[str, Point] = {}
    for point in points:
        if point.name in seen:
            raise UserError(f"two points of the sweep would be called '{point.name}': give each value once")
        seen[point.name] = point
        if point.method not in METHODS:
            raise UserError(f"unknown method '{point.method}': use {', '.join(METHODS)}")
        if point.target:
            parse_target(point.target)  # for its refusals
        if point.updates < 0 or point.settle_updates < 0:
            raise UserError("numbers of updates must not be negative")
        if not 0 <= point.l0_lambda < float("inf"):
            raise UserError(f"lambda must be a number of at least 0, not {point.l0_lambda}")
    return list(points)


def select(points: Sequence[Point], names: Sequence[str]) -> list[Point]:
    """The points of these names; UserError for a name that is none of them."""
    known = {p.name for p in points}
    for name in names:
        if name not in known:
            raise UserError(f"--only names '{name}', the sweep has {', '.join(p.name for p in points)}")
    return [p for p in points if p.name in names]


def needs(point: Point) -> str | None:
    """Name of the point that must be finished first, if any."""
    return point.source or None
