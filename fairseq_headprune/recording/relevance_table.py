"""Head relevance averaged over a corpus (paper, A.3), one sentence at a time, and how it is shown."""

import json
from collections.abc import Mapping

import numpy as np
import torch

from fairseq_headprune.base.files import write_text
from fairseq_headprune.lrp import Average
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout, flag


class RelevanceTable:
    """Mean over all steps of relevance normalised over the heads of each layer.

    Steps that are not finite somewhere are left out and counted, and so are sentences without relevance:
    zeros throughout. Of the signed epsilon rule the
    mean of magnitudes is kept too: shares of both signs cancel in the mean, which may be near 0 for
    a head that matters at every step.
    """

    def __init__(self, layout: HeadLayout):
        self.layout = layout
        self.sentences = 0
        self.without = 0
        self.average = Average()
        self._magnitude = Average()

    def add(self, relevance: Mapping[str, np.ndarray]) -> None:
        """One sentence: type -> ``[steps, layers, heads]``, not normalised."""
        if len(self.layout) and not any(np.any(relevance[t]) for t in ATTENTION_TYPES):
            self.without += 1
            return
        steps = {t: torch.tensor(relevance[t])[:, None] for t in ATTENTION_TYPES}
        self.average.add(steps)
        self._magnitude.add({t: value.abs() for t, value in steps.items()})
        self.sentences += 1

    @property
    def steps(self) -> int:
        """Generation steps averaged over."""
        return self.average.steps

    def rows(self) -> dict[str, np.ndarray]:
        """Type -> ``[layers, heads]``, absolute values of a layer adding up to at most 1."""
        return {t: self.average[t].numpy() for t in self.average.table()}

    def magnitudes(self) -> dict[str, np.ndarray]:
        """The same for absolute values; equal to `rows` for rules without negative relevance."""
        return {t: self._magnitude[t].numpy() for t in self._magnitude.table()}

    def lines(self, name: str) -> list[str]:
        """``<name>TABenc-selfTABlayerTABshare of head 0 share of head 1 ...``, a line a layer.

        Heads that do not exist show as ``-``.
        """
        result = []
        for type, rows in self.rows().items():
            for layer, row in enumerate(rows):
                kept = self.layout[type][layer]
                cells = [f"{x:.4f}" if h in kept else "-" for h, x in enumerate(row)]
                result.append("\t".join([name, flag(type), str(layer), " ".join(cells)]))
        return result

    def text(self) -> str:
        """A block per type, a line a layer, a column a head, as shares of the layer."""
        blocks = []
        for type, rows in self.rows().items():
            if not len(rows):  # an SSRU in place of dec-self
                continue
            head = f"{flag(type):<9}" + "".join(f"{h:>7}" for h in range(rows.shape[1]))
            lines = [head]
            for layer, row in enumerate(rows):
                kept = self.layout[type][layer]
                cells = (f"{x:7.3f}" if h in kept else f"{'-':>7}" for h, x in enumerate(row))
                lines.append(f"layer {layer:<3}" + "".join(cells))
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def warning(self) -> str:
        """A sentence on steps that were left out, or nothing."""
        if not self.average.nonfinite:
            return ""
        every = self.average.nonfinite + self.steps
        return f"relevance was not finite at {self.average.nonfinite:,} of {every:,} steps: they are left out"

    def to_dict(self, provenance: Mapping) -> dict:
        """What is saved as JSON."""
        return {
            "provenance": dict(provenance),
            "counts": {
                "sentences": self.sentences,
                "sentences_without_relevance": self.without,
                "steps": self.steps,
                "steps_left_out": self.average.nonfinite,
            },
            "layout": self.layout.to_dict(),
            "relevance": {t: rows.tolist() for t, rows in self.rows().items()},
            "magnitude": {t: rows.tolist() for t, rows in self.magnitudes().items()},
        }


def save_json(data: Mapping, path) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(data, indent=1) + "\n")
