"""Functions of the encoder heads that remain after pruning; a column a model.

Figure 8 of the paper. Heads are ordered by function; a number says how many functions a head has
when it has more than one.
"""

from matplotlib import pyplot
from matplotlib.patches import Rectangle

from fairseq_headprune.analysis.figures import style
from fairseq_headprune.analysis.figures.inputs import Missing

ORDER = ("positional", "syntactic", "rare")


def column(functions):
    """Heads of one model from the bottom up: (head, kinds, functions), by first function, the heads
    without any last."""

    def place(item):
        head, found = item
        kinds = style.kinds(found)
        first = ORDER.index(kinds[0]) if kinds else len(ORDER)
        text = style.function_text(found[0]) if found else ""
        return first, text, head

    encoder = [(head, found) for head, found in functions.items() if head.type == "enc_self"]
    return [(head, style.kinds(found), found) for head, found in sorted(encoder, key=place)]


def draw(inputs):
    """Most heads left, fewest right."""
    points = [
        p for p in inputs.sweep("enc") if p.functions is not None and (p.gated or p.method == "control")
    ]
    if not points:
        raise Missing("points whose heads were analysed ('functions', or --point-roles)")
    columns = [column(p.functions) for p in points]
    height = max(max(map(len, columns)), 1)
    figure, axes = pyplot.subplots(figsize=(1.2 + 0.5 * len(columns), 1.3 + 0.11 * height))
    for x, cells in enumerate(columns):
        for y, (_, kinds, found) in enumerate(cells):
            looks = [style.FUNCTIONS[kind] for kind in kinds] or [style.NONE]
            for i, look in enumerate(looks):
                axes.add_patch(
                    Rectangle(
                        (x + 0.06 + 0.88 * i / len(looks), y),
                        0.88 / len(looks),
                        0.94,
                        facecolor=look.color,
                        hatch=look.hatch,
                        edgecolor="white",
                        linewidth=0.3,
                        gid="stripe",
                    )
                )
            if len(found) > 1:
                axes.text(
                    x + 0.5,
                    y + 0.45,
                    str(len(found)),
                    ha="center",
                    va="center",
                    fontsize=5.5,
                    weight="bold",
                    bbox=dict(facecolor="white", edgecolor="none", pad=0.5, alpha=0.85),
                )
            elif found:
                axes.text(
                    x + 0.5,
                    y + 0.45,
                    style.function_text(found[0]),
                    ha="center",
                    va="center",
                    fontsize=5,
                    color=looks[0].text,
                    bbox=dict(facecolor=looks[0].color, edgecolor="none", pad=0.2),
                )
    axes.set_xlim(0, len(columns))
    axes.set_ylim(0, height + 0.5)
    labels, slanted = [str(len(c)) for c in columns], {}
    if len(set(labels)) < len(labels):
        labels = [f"{n}\n{point.name}" for n, point in zip(labels, points)]
        slanted = dict(rotation=25, ha="right", rotation_mode="anchor", fontsize=6)
    axes.set_xticks([x + 0.5 for x in range(len(columns))], labels, **slanted)
    axes.set_xlabel("encoder heads retained")
    axes.set_ylabel("heads, ordered by function")
    axes.set_yticks([])
    figure.legend(handles=style.legend_patches(), loc="outside upper center", ncol=2, fontsize=6)
    return figure
