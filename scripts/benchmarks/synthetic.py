"""A made-up dump with trees and a frequency file, of any size: what the benchmark measures on.

Nothing in it is language: words are drawn from a Zipf distribution, trees and weights at random.
Sizes and proportions (pieces a word, relations a sentence) are those of real English text.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_headprune.dump import DumpWriter, make_manifest
from fairseq_headprune.units.layout import HeadLayout

RELATIONS = ("nsubj", "obj", "amod", "advmod", "det", "case", "nmod", "punct")
SHARES = (0.08, 0.05, 0.06, 0.05, 0.16, 0.16, 0.24, 0.2)
SPLIT = 0.15
"""Share of words that are cut into two or three pieces."""
POOL = 256
"""Different attention maps; sentences take turns with them, so that writing does not take hours."""


class Synthetic(NamedTuple):
    """Where the files are."""

    dump: Path
    trees: Path
    frequencies: Path


def make(directory, sentences: int, tokens: int, layers: int, heads: int, seed: int = 1) -> Synthetic:
    """Write a dump of ``sentences`` sentences of ``tokens`` tokens (EOS counted) with encoder
    self-attention of ``layers`` x ``heads`` heads, their trees and the tokens' frequencies."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    made = Synthetic(directory / "dump", directory / "trees.conllu", directory / "dict.txt")
    rng = np.random.default_rng(seed)
    layout = HeadLayout.full(layers, heads, 1, heads)
    manifest = make_manifest(
        model={"file": "none", "sha256": "0" * 64},
        layout=layout,
        num_heads=dict.fromkeys(("enc_self", "dec_self", "dec_enc"), heads),
        attention=("enc_self",),
    )
    sharpness = rng.gamma(0.5, size=(POOL, layers * heads, tokens, tokens)) ** 2 + 1e-6
    maps = (sharpness / sharpness.sum(-1, keepdims=True)).astype(np.float16)
    counts = {}
    with DumpWriter(made.dump, manifest) as writer, open(made.trees, "w", encoding="utf-8") as trees:
        for number in range(sentences):
            words, pieces = _sentence(rng, tokens - 1)
            for piece in pieces:
                counts[piece] = counts.get(piece, 0) + 1
            source = [*pieces, "</s>"]
            writer.add(number, source, ["x", "</s>"], {"enc_self": maps[number % POOL]})
            trees.write(_tree(rng, number, words))
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    made.frequencies.write_text("".join(f"{t} {n}\n" for t, n in ranked), encoding="utf-8")
    return made


def _sentence(rng, length):
    """Words, and their ``length`` pieces."""
    words, pieces = [], []
    while len(pieces) < length:
        word = f"word{rng.zipf(1.3) % 30000:05d}"
        parts = int(rng.integers(2, 4)) if rng.random() < SPLIT else 1
        parts = min(parts, length - len(pieces))
        cuts = [0, *(4 + 2 * i for i in range(parts - 1)), len(word)]
        stems = [word[a:b] for a, b in zip(cuts, cuts[1:])]
        pieces.extend([stem + "@@" for stem in stems[:-1]] + stems[-1:])
        words.append(word)
    return words, pieces


def _tree(rng, number, words) -> str:
    """A CoNLL-U block: the first word is the root; of the others, the odd ones depend on an even
    word near by on either side, and the even ones on the even one before, so that there is no cycle."""
    lines = [f"# sent_id = {number}", f"# text = {' '.join(words)}"]
    labels = rng.choice(len(RELATIONS), p=SHARES, size=len(words))
    steps = np.where(np.arange(len(words)) % 2, rng.choice((-3, -1, 1, 3), size=len(words)), -2)
    for index, word in enumerate(words):
        head, label = 0, "root"
        if index:
            head, label = index + 1 + int(steps[index]), RELATIONS[labels[index]]
            if not 1 <= head <= len(words):
                head = 1
        lines.append(f"{index + 1}\t{word}\t{word}\tX\tX\t_\t{head}\t{label}\t_\t_")
    return "\n".join(lines) + "\n\n"
