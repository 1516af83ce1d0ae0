"""BLEU by the number of retained encoder heads, the decoder frozen, with bootstrap intervals.

Figure 7 of the paper. The control is the whole model trained as long without the penalty; intervals
are those of the paired difference to it.
"""

from collections import defaultdict

from matplotlib import pyplot

from analysis.figures import style

GATES = "gates (L0)"


def series(points):
    """Name -> [(heads, BLEU, low, high)], most heads first: the paper's method, and every other way
    of choosing heads at its own. ``low`` and ``high`` are None when nothing was compared."""
    found = defaultdict(list)
    for point in points:
        if point.method in ("baseline", "control"):
            continue
        name = GATES if point.gated else point.record.get("criterion") or point.method
        if not point.gated and point.method == "criterion":
            name += ", fine-tuned" if point.record.get("settle_updates") else ", one shot"
        if point.method == "scratch":
            name = "same heads, from scratch"
        compared = point.against_control()
        low = high = None
        if compared:
            low = point.bleu - compared["difference"] + compared["low"]
            high = point.bleu - compared["difference"] + compared["high"]
        found[name].append((point.heads["enc_self"], point.bleu, low, high))
    return {name: sorted(values, key=lambda v: (-v[0], v[1])) for name, values in
            sorted(found.items(), key=lambda item: (item[0] != GATES, item[0]))}


def draw(inputs):
    """BLEU falls to the right."""
    points = inputs.sweep("enc")
    figure, axes = pyplot.subplots(figsize=(5.2, 3))
    for (name, values), look in zip(series(points).items(), style.SERIES * 3):
        heads, bleu = [v[0] for v in values], [v[1] for v in values]
        axes.plot(heads, bleu, label=name, **look)
        known = [v for v in values if v[2] is not None]
        if known:
            axes.errorbar([v[0] for v in known], [v[1] for v in known],
                          yerr=[[v[1] - v[2] for v in known], [v[3] - v[1] for v in known]],
                          fmt="none", ecolor=look["color"], elinewidth=0.7, capsize=2, alpha=0.7)
    for point in points:
        if point.method in ("control", "baseline"):
            line = "-" if point.method == "control" else ":"
            name = f"whole model, {'trained on' if point.method == 'control' else 'as it came'} ({point.bleu:.2f})"
            axes.axhline(point.bleu, color="#555555", linewidth=0.9, linestyle=line, label=name)
    top = max(p.heads["enc_self"] for p in points)
    axes.set_xlim(top + 1, 0)
    axes.set_xlabel("retained encoder heads")
    axes.set_ylabel("BLEU")
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=6, loc="lower left")
    return figure
