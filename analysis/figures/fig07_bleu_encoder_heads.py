"""BLEU by the number of retained encoder heads, the decoder frozen, with bootstrap intervals.

Figure 7 of the paper. A control is the whole model trained as long and in the same way, without the
penalty; intervals are those of the paired difference to it. A way of choosing heads has one color
and marker, hollow where nothing was trained after the removal; lines go through the means of models
with equally many heads.
"""

from collections import defaultdict
from statistics import fmean

from matplotlib import pyplot

from fairseq_headprune.analysis.figures import style
from fairseq_headprune.analysis.figures.inputs import comparable

GATES = "gates (L0)"
ONE_SHOT = "one shot"
TUNED = (("full", "-"), ("left", "--"), ("bottom", "-."))
"""Fill of the marker and line of the recipes of one way."""


def name_of(point):
    """What the legend calls the way its heads were chosen."""
    if point.gated:
        return GATES
    if point.method == "scratch":
        return "same heads, from scratch"
    tuned = "fine-tuned" if point.record.get("settle_updates") else ONE_SHOT
    return f"{point.record.get('criterion') or point.method}, {tuned}"


def rate_of(point):
    """Learning rate of the pruning, which with the penalty makes its recipe; 0 where not recorded."""
    return (point.record.get("budget") or {}).get("lr") or 0


def updates_of(point):
    """Updates since the baseline; 0 where not recorded."""
    return point.record.get("updates_in_all") or 0


def series(points, test="together"):
    """Name -> [(heads, BLEU, low, high)], most heads first: the paper's method, and every other way
    of choosing heads at its own. ``low`` and ``high`` are None where nothing was compared."""
    found = defaultdict(list)
    rates = {rate_of(p) for p in points if p.gated}
    lengths = {updates_of(p) for p in points if p.gated}
    for point in points:
        if point.method in ("baseline", "control"):
            continue
        name = name_of(point)
        if point.gated and len(rates) > 1:
            name += f", learning rate {rate_of(point):g}"
        if point.gated and len(lengths) > 1:
            name += f", {updates_of(point):,} updates"
        bleu = point.scores[test]["bleu"]
        compared = point.against_control() if test == "together" else None
        low = high = None
        if compared:
            low = bleu - compared["difference"] + compared["low"]
            high = bleu - compared["difference"] + compared["high"]
        found[name].append((point.heads["enc_self"], bleu, low, high))
    return {
        name: sorted(values, key=lambda v: (-v[0], v[1]))
        for name, values in sorted(found.items(), key=lambda item: (not item[0].startswith(GATES), item[0]))
    }


def looks(names, ways):
    """Name of a series -> how it is drawn: colors and markers by its place among all ``ways`` of
    choosing heads."""
    recipes, found = defaultdict(int), {}
    for name in names:
        way, _, recipe = name.partition(", ")
        fill, line = ("none", ":") if recipe == ONE_SHOT else TUNED[recipes[way] % len(TUNED)]
        recipes[way] += 1
        found[name] = {
            **style.SERIES[ways.index(way) % len(style.SERIES)],
            "linestyle": line,
            "fillstyle": fill,
        }
    return found


def panel(axes, points, test, lines, styles):
    """BLEU falls to the right; ``lines`` are the `series` of these points, ``styles`` their `looks`."""
    for name, values in lines.items():
        look = styles[name]
        counts = sorted({v[0] for v in values}, reverse=True)
        axes.plot([v[0] for v in values], [v[1] for v in values], label=name, **{**look, "linewidth": 0})
        axes.plot(
            counts,
            [fmean(v[1] for v in values if v[0] == n) for n in counts],
            color=look["color"],
            linestyle=look["linestyle"],
        )
        known = [v for v in values if v[2] is not None]
        if known:
            axes.errorbar(
                [v[0] for v in known],
                [v[1] for v in known],
                yerr=[[v[1] - v[2] for v in known], [v[3] - v[1] for v in known]],
                fmt="none",
                ecolor=look["color"],
                elinewidth=0.7,
                capsize=2,
                alpha=0.7,
            )
    whole = [p for p in points if p.method in ("control", "baseline")]
    for point, line in zip(sorted(whole, key=lambda p: p.method), (":", "-", "--", "-.") * len(whole)):
        bleu = point.scores[test]["bleu"]
        name = f"trained on ({point.name})" if point.method == "control" else "as it came"
        axes.axhline(
            bleu, color="#555555", linewidth=0.9, linestyle=line, label=f"whole model, {name}: {bleu:.2f}"
        )
    # most of what there is to see is where few heads are left
    axes.set_xscale("function", functions=(lambda x: x.clip(0) ** 0.5, lambda x: x**2))
    ticks = [n for n in (0, 1, 2, 4, 7, 10, 17, 24, 32, 48) if n <= max(p.heads["enc_self"] for p in points)]
    axes.set_xticks(ticks, ticks)
    axes.set_xlim(max(p.heads["enc_self"] for p in points) + 1, 0)
    axes.set_title("all test sets together" if test == "together" else f"{test} alone")
    axes.set_xlabel("retained encoder heads")
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)


def draw(inputs):
    """One panel; a second one for a single test set when some models were scored on that alone."""
    groups = comparable(inputs.sweep("enc"))
    lines = {test: series(points, test) for test, points in groups.items()}
    ways = list(dict.fromkeys(name.partition(", ")[0] for found in lines.values() for name in found))
    figure, panels = pyplot.subplots(1, len(groups), figsize=(5.2 * len(groups), 4.2), squeeze=False)
    for axes, (test, points) in zip(panels[0], groups.items()):
        panel(axes, points, test, lines[test], looks(lines[test], ways))
    panels[0][0].set_ylabel("BLEU")
    return figure
