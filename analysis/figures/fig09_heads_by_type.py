"""Active heads of each attention type by how many heads of all types were pruned.

Figure 9 of the paper.
"""

from matplotlib import pyplot

from fairseq_headprune.analysis.figures import style
from fairseq_headprune.analysis.figures.inputs import Missing


def rows(points):
    """[(pruned, {type: active})] of the paper's method, the whole model first."""
    total = max(len(p.layout) for p in points)
    return sorted(((total - len(p.layout), p.heads) for p in points), key=lambda row: row[0])


def draw(inputs):
    """A line a type."""
    points = [p for p in inputs.sweep("all") if p.gated or p.method == "baseline"]
    if len(points) < 2:
        raise Missing("at least two points of the setting 'all'")
    found = rows(points)
    figure, axes = pyplot.subplots(figsize=(4.4, 2.8))
    for type in points[0].layout.types:
        numbers = [heads[type] for _, heads in found]
        axes.plot([pruned for pruned, _ in found], numbers, **style.TYPES[type])
    total = sum(found[0][1].values()) + found[0][0]
    axes.set_xlabel(f"pruned heads of all types (of {total})")
    axes.set_ylabel("active heads")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=7)
    return figure
