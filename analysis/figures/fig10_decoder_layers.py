"""Active decoder heads by layer, adjacent layers added up in pairs, by how many heads were pruned.

Figure 10 of the paper: decoder self-attention left, decoder-encoder attention right.
"""

from matplotlib import pyplot

from fairseq_headprune.analysis.figures import style
from fairseq_headprune.analysis.figures.inputs import Missing, pairs_of_layers


def rows(points, type):
    """[(pruned, [active heads of each pair of layers])], fewest pruned first."""
    total = max(len(p.layout) for p in points)
    found = []
    for point in points:
        counts = [len(heads) for heads in point.layout[type]]
        found.append(
            (
                total - len(point.layout),
                [sum(counts[i] for i in pair) for pair in pairs_of_layers(len(counts))],
            )
        )
    return sorted(found, key=lambda row: row[0])


def draw(inputs):
    """A line a pair of layers."""
    points = [p for p in inputs.sweep("all") if p.gated or p.method == "baseline"]
    if len(points) < 2:
        raise Missing("at least two points of the setting 'all'")
    types = [t for t in points[0].layout.types if t != "enc_self"]
    figure, grid = pyplot.subplots(1, len(types), figsize=(3.3 * len(types), 2.7), sharey=True, squeeze=False)
    panels = grid[0]
    for axes, type in zip(panels, types):
        found = rows(points, type)
        pairs = pairs_of_layers(len(points[0].layout[type]))
        for i, pair in enumerate(pairs):
            axes.plot(
                [pruned for pruned, _ in found],
                [active[i] for _, active in found],
                label="layers " + "–".join(map(str, pair)),
                **style.SERIES[i % len(style.SERIES)],
            )
        axes.set_title(style.TYPES[type]["label"])
        axes.set_xlabel("pruned heads of all types")
        axes.grid(axis="y", linewidth=0.3)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("active heads")
    panels[0].legend(fontsize=7)
    return figure
