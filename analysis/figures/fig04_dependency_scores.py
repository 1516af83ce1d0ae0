"""Accuracy of the best encoder head on each syntactic relation and direction, beside the baseline.

Figure 4 of the paper; one bar a model.
"""

import numpy as np
from matplotlib import pyplot

from fairseq_headprune.analysis.figures import style


def draw(inputs):
    """Groups of bars with bootstrap intervals; a line across each group is the baseline."""
    tables = inputs.syntax()
    places = [(r, d) for r in tables[0].relations for d in tables[0].relations[r]]
    figure, axes = pyplot.subplots(figsize=(max(4.5, 0.75 * len(places) + 1), 2.8))
    width = 0.8 / len(tables)
    for i, table in enumerate(tables):
        for j, (relation, direction) in enumerate(places):
            best = table.best(relation, direction)
            if best is None:
                continue
            head, measured = best
            x = j - 0.4 + (i + 0.5) * width
            error = [[measured["accuracy"] - measured["low"]], [measured["high"] - measured["accuracy"]]]
            axes.bar(
                x,
                measured["accuracy"],
                width * 0.95,
                yerr=error,
                color=style.SERIES[i % len(style.SERIES)]["color"],
                hatch=style.BAR_HATCHES[i % 6],
                edgecolor="black",
                linewidth=0.4,
                alpha=0.85,
                error_kw=dict(linewidth=0.7, capsize=1.5),
                label=table.label if j == 0 else None,
            )
            axes.plot(
                [x - width / 2, x + width / 2],
                [measured["baseline"]] * 2,
                color="black",
                linewidth=1.6,
                label="baseline" if i == j == 0 else None,
            )
            axes.text(
                x,
                0.015,
                f"{head.layer}:{head.head}",
                ha="center",
                va="bottom",
                fontsize=5.5,
                rotation=90,
                bbox=dict(facecolor="white", edgecolor="none", pad=0.5, alpha=0.8),
            )
    axes.set_xticks(
        np.arange(len(places)), [f"{r}\n{style.relation_text(r, d)}" for r, d in places], fontsize=7
    )
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("accuracy of the best head")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncol=6, fontsize=7)
    return figure
