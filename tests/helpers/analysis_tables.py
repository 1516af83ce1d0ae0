"""Synthetic tables beside heads.json: points of a sweep, ablations, attention maps."""

import json
import random
from pathlib import Path

import numpy as np

from fairseq_headprune.analysis import maps
from fairseq_headprune.base import files
from fairseq_headprune.units.layout import ATTENTION_TYPES

NASTY = [
    "<b>two</b>",
    "&amp;",
    "</script><script>document.title='owned'</script>",
    "$x$",
    "@@DATA@@",
    "ru@@",
    "n",
    "</s>",
]
"""Tokens that try to become something else in HTML, in a formula and in a template."""


def layout_of(counts, layers=6, heads=8, seed=0):
    """A layout with so many heads of each type, drawn by lot."""
    rng = random.Random(seed)
    every = [(layer, head) for layer in range(layers) for head in range(heads)]
    layout = {}
    for type, count in zip(ATTENTION_TYPES, counts):
        kept = set(rng.sample(every, count))
        layout[type] = [[h for h in range(heads) if (layer, h) in kept] for layer in range(layers)]
    return layout


def point(name, setting, method, counts, bleu, tests=("a", "b"), functions=(), **more):
    """The JSON record of one point."""
    layout = layout_of(counts)
    compared = {}
    if method not in ("baseline", "control", "scratch"):
        compared = {f"{setting}-control": {"difference": bleu - 39, "low": bleu - 39.4, "high": bleu - 38.6}}
    records = None
    if functions:
        heads = [(layer, h) for layer, row in enumerate(layout["enc_self"]) for h in row]
        records = [
            {"type": "enc_self", "layer": layer, "head": h, "functions": list(f)}
            for (layer, h), f in zip(heads, [*functions, *[()] * len(heads)])
        ]
    scores = {"together": {"bleu": bleu, "signature": "s"}, **{t: {"bleu": bleu + 1} for t in tests}}
    return {
        "name": name,
        "setting": setting,
        "method": method,
        "layout": layout,
        "scores": scores,
        "compared": compared,
        "functions": records,
        **more,
    }


def write_points(folder, records) -> Path:
    """One JSON file a point."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for record in records:
        (folder / f"{record['name']}.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def sweep():
    """A small sweep of both settings."""
    return [
        point("baseline", "all", "baseline", (48, 48, 48), 38.8),
        point("enc-control", "enc", "control", (48, 48, 48), 39.0),
        point("all-control", "all", "control", (48, 48, 48), 39.1),
        point(
            "enc-l1",
            "enc",
            "l0",
            (17, 48, 48),
            38.9,
            functions=(
                ["positional -1"],
                ["syntactic nsubj d->h", "syntactic obj h->d"],
                ["rare words"],
                ["positional +1", "syntactic amod d->h"],
            ),
        ),
        point("enc-l2", "enc", "l0", (4, 48, 48), 38.1, functions=(["positional -1"],)),
        point("enc-gradient-17", "enc", "criterion", (17, 48, 48), 37.5, tests=("a",), criterion="gradient"),
        point("all-l1", "all", "l0", (14, 31, 30), 38.7),
        point("all-l2", "all", "l0", (5, 9, 12), 37.2),
        point("scratch-all-l1", "all", "scratch", (14, 31, 30), 36.5, source="all-l1"),
    ]


def ablation(heads, clear=(), model=None):
    """An ablation table of the records of a heads.json; switching off the heads in ``clear`` costs."""
    records = []
    for record in heads["heads"]:
        key = (record["type"], record["layer"], record["head"])
        effect = 0.03 if key in clear else 0.0005
        for kind in ("without", "alone"):
            records.append(
                {
                    "kind": kind,
                    "type": key[0],
                    "layer": key[1],
                    "head": key[2],
                    "loss": 1.7 + effect,
                    "difference": effect,
                    "low": effect - 0.002,
                    "high": effect + 0.002,
                }
            )
    return {
        "provenance": {
            "model": model or heads["provenance"]["model"],
            "data": {"path": "data-bin", "subset": "valid"},
            "options": {"level": 0.95},
        },
        "baseline": {"loss": 1.7, "tokens": 15000, "sentences": 1014},
        "records": records,
    }


def write_maps(path, sentences=2, layers=6, heads=8, source=NASTY, marked=("enc-self:0:0",)) -> Path:
    """A maps file of encoder heads; row q of head h of layer l has its largest weight on key
    ``(q + l + h) % n``."""
    index = [(layer, head) for layer in range(layers) for head in range(heads)]
    size = len(source)
    weights = np.full((len(index), size, size), 0.5 / size)
    for place, (layer, head) in enumerate(index):
        for q in range(size):
            weights[place, q, (q + layer + head) % size] += 0.5
    made = [
        maps.Sentence(
            10 * i, list(source), ["x", "</s>"], {"enc_self": index}, {"enc_self": maps.quantise(weights)}
        )
        for i in range(sentences)
    ]
    files.write_json(
        path,
        {"provenance": {"model": None}, "marked": list(marked), "sentences": [maps.to_json(s) for s in made]},
    )
    return Path(path)
