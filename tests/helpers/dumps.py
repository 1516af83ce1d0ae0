"""Small dumps for tests: sentences with attention that a test chooses."""

from pathlib import Path

import numpy as np

from fairseq_headprune.dump import DumpWriter, make_manifest
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout

EOS = "</s>"


def write_dump(
    directory, sentences, layout=None, types=("enc_self",), relevance=(), heads=None,
    shard_bytes=1 << 20,
):  # fmt: skip
    """Write a dump and return its path.

    ``sentences``: dicts with ``source`` (no EOS), optional ``target``, ``attention`` (type -> [layers,
    heads, queries, keys] or [existing heads, queries, keys], EOS included), ``relevance`` and ``id``.
    """
    sentences = list(sentences)
    if layout is None:
        first = next(iter(sentences[0]["attention"].values()))
        layout = HeadLayout.full(first.shape[0], first.shape[1], first.shape[0], first.shape[1])
        heads = first.shape[1]
    manifest = make_manifest(
        model={"file": "model.pt", "sha256": "a" * 64},
        layout=layout,
        num_heads=dict.fromkeys(ATTENTION_TYPES, heads),
        attention=types,
        relevance=relevance,
    )
    with DumpWriter(directory, manifest, shard_bytes=shard_bytes) as writer:
        for number, sentence in enumerate(sentences):
            writer.add(
                sentence.get("id", number),
                [*sentence["source"], EOS],
                [*sentence.get("target", ()), EOS],
                sentence["attention"],
                sentence.get("relevance"),
            )
    return Path(directory)


def pointing(keys, size, weight=0.9, eos=0.02):
    """One head's map ``[size + 1, size + 1]`` (EOS last): row q puts ``weight`` on ``keys[q]`` and
    spreads what is left; ``keys[q]`` None gives a row of equal weights. ``eos``: how much of the
    rest lies on EOS, which nobody should look at."""
    rows = np.full((size + 1, size + 1), (1.0 - eos) / max(size, 1))
    rows[:, size] = eos
    for query, key in enumerate(keys):
        if key is not None:
            rows[query] = (1 - weight) / size
            rows[query, key] = weight
    return rows


def random_attention(rng, *shape):
    """Softmax-like weights: rows of non-negative numbers that sum to 1."""
    weights = rng.gamma(0.4, size=shape) + 1e-7
    return weights / weights.sum(-1, keepdims=True)


def conllu_text(sentences) -> str:
    """CoNLL-U of sentences given as lists of (form, head counted from 1 or 0, relation)."""
    blocks = []
    for number, words in enumerate(sentences):
        lines = [f"# sent_id = {number}"]
        lines += [
            f"{i}\t{form}\t_\tX\t_\t_\t{head}\t{label}\t_\t_"
            for i, (form, head, label) in enumerate(words, 1)
        ]
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)
