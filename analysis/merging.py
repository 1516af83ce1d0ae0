"""Attention between words from attention between pieces, for many sentences at once.

The order is that of words.py: add the weights of all pieces of the attended word, average over the
pieces of the attending word.
"""

from typing import Sequence

import numpy as np
import torch


def to_float(weights: np.ndarray) -> np.ndarray:
    """float32 of weights, of which uint16 are the bits of float16 numbers.

    By way of torch, which converts several numbers at a time and is eight times as fast as numpy.
    """
    if weights.dtype == np.uint16:
        weights = weights.view(np.float16)
    return torch.from_numpy(np.ascontiguousarray(weights)).float().numpy()


def merge_words(
    weights: np.ndarray, starts: Sequence[Sequence[int]], sentence: np.ndarray, word: np.ndarray
) -> np.ndarray:
    """Attention of chosen words to all words of their sentence: float32 ``[words, rows, heads]``.

    ``weights``: ``[keys, queries, sentences, heads]`` of tokens, as `to_float` takes them.
    ``starts``: per sentence the first token of each word; nothing for a sentence not asked about.
    Row i is for word ``word[i]`` of sentence ``sentence[i]``. Sentences with fewer words than the
    longest have weights of 0 behind their last word.
    """
    keys = len(weights)
    by_query = weights.transpose(1, 0, 2, 3)
    first = np.full((len(starts), 1 + max(map(len, starts))), keys)
    for number, of_sentence in enumerate(starts):
        first[number, : len(of_sentence)] = of_sentence
    pieces = np.diff(first, axis=1)  # of each word, 0 behind the last
    first = first[:, :-1]

    # A row for the first piece of every attending word, then one for every further piece.
    queries = pieces[sentence, word]
    further = [np.flatnonzero(queries > piece) for piece in range(1, queries.max(initial=1))]
    row = np.concatenate([np.arange(len(word)), *further])
    piece = np.repeat(np.arange(len(further) + 1), [len(word), *map(len, further)])
    row_sentence = sentence[row]
    row_token = first[row_sentence, word[row]] + piece

    key_token = first[row_sentence].T
    key_pieces = pieces[row_sentence].T
    merged = to_float(by_query[row_token, np.minimum(key_token, keys - 1), row_sentence])
    merged[key_pieces == 0] = 0
    for piece in range(1, pieces.max(initial=1)):
        words, rows = np.nonzero(key_pieces > piece)
        merged[words, rows] += to_float(
            by_query[row_token[rows], key_token[words, rows] + piece, row_sentence[rows]]
        )

    result, done = merged[:, : len(word)], len(word)
    for rows in further:
        result[:, rows] += merged[:, done : done + len(rows)]
        done += len(rows)
    if further:
        result[:, further[0]] /= queries[further[0], None].astype(np.float32)
    return result
