"""The intervention beside the observation: what switching a head off costs, by its relevance.

Not in the paper. Encoder heads with their bootstrap intervals; the function observed gives the
color and the marker. The title has Spearman's rank correlation.
"""

from matplotlib import pyplot
from scipy.stats import spearmanr

from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.analysis.figures import style
from fairseq_headprune.analysis.figures.inputs import Missing

MARKERS = {"positional": "D", "syntactic": "^", "rare": "*", None: "o"}


def rows(table, ablation):
    """[(head, relevance or confidence, record of the ablation, kind or None)] of encoder heads."""
    off = ablation_table.by_head(ablation)
    found = []
    for head, record in table.of("enc_self").items():
        x = record["relevance"] if record["relevance"] is not None else record["confidence"]
        if head in off and x is not None:
            kinds = style.kinds(table.functions(head))
            found.append((head, x, off[head], kinds[0] if kinds else None))
    return found


def rank_correlation(found):
    """Spearman's, as text; nothing to say where all values of one side are equal."""
    sides = [row[1] for row in found], [row[2]["difference"] for row in found]
    if any(len(set(side)) < 2 for side in sides):
        return "undefined"
    return f"{spearmanr(*sides).statistic:.2f}".replace("-", "−")


def labelled(found, most=6, near=0.06):
    """The rows with the largest effects, without those whose label would lie on a larger one's.

    ``near`` is a share of both axes.
    """
    spread = [max(side) - min(side) or 1 for side in zip(*((row[1], row[2]["difference"]) for row in found))]
    chosen = []
    for row in sorted(found, key=lambda row: -abs(row[2]["difference"]))[:most]:
        gaps = [
            (
                abs(row[1] - other[1]) / spread[0],
                abs(row[2]["difference"] - other[2]["difference"]) / spread[1],
            )
            for other in chosen
        ]
        if all(max(gap) > near for gap in gaps):
            chosen.append(row)
    return chosen


def draw(inputs):
    """A point a head; the dashed line is no change."""
    table = inputs.main()
    if inputs.ablation is None:
        raise Missing("an ablation table (--ablation)")
    found = rows(table, inputs.ablation)
    if not found:
        raise Missing("an ablation table of the same heads")
    figure, axes = pyplot.subplots(figsize=(4.6, 3.1))
    for kind, marker in MARKERS.items():
        mine = [row for row in found if row[3] == kind]
        if not mine:
            continue
        look = style.FUNCTIONS[kind] if kind else style.NONE
        y = [row[2]["difference"] for row in mine]
        axes.errorbar(
            [row[1] for row in mine],
            y,
            yerr=[
                [row[2]["difference"] - row[2]["low"] for row in mine],
                [row[2]["high"] - row[2]["difference"] for row in mine],
            ],
            fmt="none",
            ecolor="#999999",
            elinewidth=0.6,
            zorder=1,
        )
        axes.scatter(
            [row[1] for row in mine],
            y,
            color=look.color if kind else "#bbbbbb",
            marker=marker,
            s=70 if kind == "rare" else 30,
            edgecolor="black",
            linewidth=0.5,
            label=look.name,
            zorder=2,
        )
    for head, x, record, _ in labelled(found):
        axes.annotate(
            f"{head.layer}:{head.head}",
            (x, record["difference"]),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize=6,
        )
    axes.axhline(0, color="black", linewidth=0.7, linestyle="--")
    has_relevance = any(r["relevance"] is not None for r in table.of("enc_self").values())
    axes.set_xlabel("relevance (share of the layer)" if has_relevance else "confidence")
    axes.set_ylabel("loss without the head\n(nats per token more)")
    axes.set_title(f"{table.label}, encoder heads (layer:head)\nrank correlation {rank_correlation(found)}")
    axes.legend(fontsize=6, loc="upper left")
    return figure
