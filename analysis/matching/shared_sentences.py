"""The same sentences in the dumps of two models: how alike the attention of their heads is there."""

from collections.abc import Iterator, Sequence

import numpy as np

from fairseq_headprune.analysis.matching.pairs import attention_similarity
from fairseq_headprune.analysis.words import EOS, word_texts, words
from fairseq_headprune.units.layout import Head


def pairs(one, two, limit: int) -> Iterator[tuple[object, object]]:
    """Records of both dumps that have the same id and the same words, at most ``limit``, in the
    order of the first dump. Ids alone do not tell that two dumps are of one data set."""
    number = 0
    for record in one:
        if number == limit:
            return
        if record.id in two:
            other = two[record.id]
            if word_texts(_without_eos(record.source)) == word_texts(_without_eos(other.source)):
                number += 1
                yield record, other


def _without_eos(tokens: Sequence[str]):
    return tokens[:-1] if tokens[-1:] == [EOS] else tokens


def to_words(weights: np.ndarray, queries: Sequence[str], keys: Sequence[str]) -> np.ndarray:
    """``[heads, queries, keys]`` between tokens -> between words: sum over a key's pieces, mean over a
    query's. The end of sentence stays, as a word of its own: models differ in how they use it."""
    rows, columns = _groups(queries), _groups(keys)
    weights = np.add.reduceat(weights.astype(np.float32), [g[0] for g in columns], axis=2)
    sums = np.add.reduceat(weights, [g[0] for g in rows], axis=1)
    return sums / np.array([len(g) for g in rows], dtype=np.float32)[:, None]


def _groups(tokens):
    body = _without_eos(tokens)
    return words(body) + ([[len(body)]] if len(body) < len(tokens) else [])


def _sides(record, type):
    if type == "enc_self":
        return record.source, record.source
    inputs = [*_without_eos(record.target)]
    return (record.target, [EOS, *inputs]) if type == "dec_self" else (record.target, record.source)


def mean_similarity(one, two, type: str, limit: int) -> tuple[np.ndarray | None, int]:
    """Mean over shared sentences of `attention_similarity` ``[stored heads, stored heads]``, and how
    many sentences; (None, 0) where nothing can be compared.

    Decoder types need the same translation too: sentences whose targets differ are left out.
    """
    if type not in one.contents["attention"] or type not in two.contents["attention"]:
        return None, 0
    total, number = 0.0, 0
    for record, other in pairs(one, two, limit):
        if type != "enc_self" and word_texts(_without_eos(record.target)) != word_texts(
            _without_eos(other.target)
        ):
            continue
        maps = [_word_maps(r, type) for r in (record, other)]
        if maps[0].shape[1:] != maps[1].shape[1:] or 0 in maps[0].shape:
            continue
        total = total + attention_similarity(*maps)
        number += 1
    return (total / number, number) if number else (None, 0)


def _word_maps(record, type):
    queries, keys = _sides(record, type)
    weights = record.heads_attention(type)
    if type == "dec_self":
        # a decoder's first key is the EOS it starts from; rows and columns are tokens as they come
        weights = weights.astype(np.float32)
    else:
        weights = to_words(weights, queries, keys)
    total = weights.sum(-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def spread(
    similarity: np.ndarray | None, index: Sequence[dict], heads: Sequence[Sequence[Head]]
) -> np.ndarray | None:
    """Rows and columns of stored heads -> those of the tables' heads; NaN for heads not dumped."""
    if similarity is None:
        return None
    places = [
        [numbers.get((head.layer, head.head)) for head in wanted]
        for numbers, wanted in zip(({tuple(p): i for i, p in enumerate(stored)} for stored in index), heads)
    ]
    found = np.full((len(heads[0]), len(heads[1])), np.nan)
    for i, row in enumerate(places[0]):
        for j, column in enumerate(places[1]):
            if row is not None and column is not None:
                found[i, j] = similarity[row, column]
    return found
