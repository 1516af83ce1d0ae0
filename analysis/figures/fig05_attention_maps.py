"""Attention maps of chosen sentences: rows attend to columns.

Figure 5 of the paper shows the rare-word head; any heads and sentences can be saved with
`headprune maps`.
"""

import numpy as np
from matplotlib import pyplot

from fairseq_headprune.analysis.figures.inputs import Missing
from fairseq_headprune.units.layout import flag

PANELS = 6


def shown(maps):
    """(sentence, head) pairs to draw: the heads marked for the figure, else all; first ones only."""
    heads = maps.marked or [h for t in maps.sentences[0].weights for h in maps.sentences[0].heads(t)]
    pairs = [(s, h) for h in heads for s in maps.sentences if h.type in s.weights and h in s.heads(h.type)]
    return pairs[:PANELS]


def written(token, longest=14):
    """A token as a label: cut when long."""
    return token if len(token) <= longest else token[: longest - 1] + "…"


def panel(axes, sentence, head):
    """One map; darker is more, the largest weight of each row is outlined."""
    weights = sentence.map(head)
    queries, keys = sentence.labels(head.type)
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    for row, column in enumerate(weights.argmax(1)):
        axes.add_patch(
            pyplot.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="#d55e00", linewidth=0.6)
        )
    axes.set_xticks(np.arange(len(keys)), [written(t) for t in keys], rotation=90, fontsize=5.5)
    axes.set_yticks(np.arange(len(queries)), [written(t) for t in queries], fontsize=5.5)
    axes.tick_params(length=0)
    axes.set_title(f"{flag(head.type)} layer {head.layer} head {head.head}", fontsize=7)
    for spine in axes.spines.values():
        spine.set_visible(True)


def draw(inputs):
    """Up to six maps."""
    if inputs.maps is None:
        raise Missing("attention maps (--maps)")
    pairs = shown(inputs.maps)
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    figure, panels = pyplot.subplots(rows, columns, figsize=(2.7 * columns, 2.7 * rows), squeeze=False)
    for axes in panels.flat[len(pairs) :]:
        axes.set_visible(False)
    for axes, (sentence, head) in zip(panels.flat, pairs):
        panel(axes, sentence, head)
    return figure
