"""Layers x heads: the grid of Figures 1 and 2."""

import numpy as np
from matplotlib import pyplot
from matplotlib.patches import Rectangle

from fairseq_headprune.analysis.figures import style
from fairseq_headprune.analysis.head_table import HeadTable

CELL = 0.46


def rows(table: HeadTable, type: str, by: str = "relevance"):
    """Heads of each layer, lowest layer first, sorted as the figure shows them."""
    return [table.sorted_layer(type, layer, by) for layer in range(table.layers(type))]


def axes_for(grid):
    """A figure and axes of a size that suits the grid; row 0 at the bottom, as layers are stacked."""
    width = max(max(map(len, grid)), 4)
    figure, axes = pyplot.subplots(figsize=(1.9 + CELL * width, 1.2 + CELL * len(grid)))
    axes.set_xlim(0, width)
    axes.set_ylim(0, len(grid))
    axes.set_aspect("equal")
    axes.set_yticks(np.arange(len(grid)) + 0.5, [str(i) for i in range(len(grid))])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.set_ylabel("layer")
    axes.set_xlabel("heads, most relevant of each layer first")
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure, axes


def heat(table: HeadTable, type: str, value: str, title: str, unit: str, limit=None):
    """A cell per head, darker for larger ``value``; its number (bold) and the value are written in.

    Sorted by relevance within each layer as in the paper, by ``value`` where there is none.
    """
    has_relevance = any(r.get("relevance") is not None for r in table.of(type).values())
    grid = rows(table, type, "relevance" if has_relevance else value)
    figure, axes = axes_for(grid)
    if not has_relevance:
        axes.set_xlabel(f"heads, largest {value} of each layer first")
    top = limit or max((r[value] or 0 for r in table.of(type).values()), default=0) or 1
    colors = pyplot.get_cmap("Blues")
    for y, heads in enumerate(grid):
        for x, head in enumerate(heads):
            number = table.records[head][value]
            depth = 0 if number is None else min(number / top, 1)
            axes.add_patch(
                Rectangle((x, y), 1, 1, facecolor=colors(0.05 + 0.9 * depth), edgecolor="white", gid="cell")
            )
            ink = "white" if depth > 0.55 else "black"
            axes.text(
                x + 0.5,
                y + 0.68,
                str(head.head),
                ha="center",
                va="center",
                fontsize=6.5,
                color=ink,
                weight="bold",
            )
            text = "–" if number is None else f"{number:.2f}".replace("0.", ".", 1)
            axes.text(x + 0.5, y + 0.3, text, ha="center", va="center", fontsize=6, color=ink)
    axes.set_title(title)
    bar = figure.colorbar(
        pyplot.cm.ScalarMappable(pyplot.Normalize(0, top), _cut(colors)), ax=axes, fraction=0.05, pad=0.02
    )
    bar.set_label(unit)
    return figure


def _cut(colors):
    """The part of a colour map that cells use."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(colors(np.linspace(0.05, 0.95, 128)))


def function_cell(axes, x, y, functions, number="", width=1.0, height=1.0):
    """One head: stripes of the colours of its kinds, each with what it does written on it."""
    kinds = style.kinds(functions)
    if not kinds:
        axes.add_patch(
            Rectangle((x, y), width, height, facecolor=style.NONE.color, edgecolor="white", gid="cell")
        )
        if number != "":
            axes.text(
                x + width / 2,
                y + height / 2,
                number,
                ha="center",
                va="center",
                fontsize=6,
                color=style.NONE.text,
            )
        return
    part = height / len(kinds)
    for i, kind in enumerate(kinds):
        look = style.FUNCTIONS[kind]
        bottom = y + height - (i + 1) * part
        axes.add_patch(
            Rectangle(
                (x, bottom),
                width,
                part,
                facecolor=look.color,
                edgecolor="white",
                hatch=look.hatch,
                linewidth=0.5,
                gid="stripe",
            )
        )
        mine = [style.function_text(f) for f in functions if f.kind == kind]
        text = mine[0] if len(mine) == 1 else f"{mine[0]} +{len(mine) - 1}"
        axes.text(
            x + width / 2,
            bottom + part / 2,
            text,
            ha="center",
            va="center",
            color=look.text,
            fontsize=6 if len(text) <= 4 else 5,
            bbox=None if not look.hatch else dict(facecolor=look.color, edgecolor="none", pad=0.4),
        )
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor="white", linewidth=1.5, gid="cell"))
    if number != "":
        look = style.FUNCTIONS[kinds[0]]
        axes.text(
            x + 0.05,
            y + height - 0.05,
            number,
            ha="left",
            va="top",
            fontsize=4.5,
            color=look.text,
            bbox=dict(facecolor=look.color, edgecolor="none", pad=0.3),
        )


def function_grid(table: HeadTable, type: str, title: str):
    """Figure 1c: every head in the colour of its function, sorted by relevance where it is known."""
    grid = rows(table, type)
    figure, axes = axes_for(grid)
    if all(r.get("relevance") is None for r in table.of(type).values()):
        axes.set_xlabel("heads by number")
    figure.set_size_inches(figure.get_size_inches() + (0, 0.4))
    for y, heads in enumerate(grid):
        for x, head in enumerate(heads):
            function_cell(axes, x, y, table.functions(head), str(head.head))
    axes.set_title(title)
    axes.legend(
        handles=style.legend_patches(), loc="upper center", bbox_to_anchor=(0.5, -0.1), ncol=2, fontsize=7
    )
    return figure
