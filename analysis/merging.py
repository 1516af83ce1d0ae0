"""Attention between words from attention between pieces, for many sentences at once.

The order is that of words.py: add the weights of all pieces of the attended word, average over the
pieces of the attending word.
"""

from typing import NamedTuple

import numpy as np
import torch


def to_float(weights: np.ndarray) -> np.ndarray:
    """float32 of weights, of which uint16 are the bits of float16 numbers.

    By way of torch, which converts several numbers at a time and is eight times as fast as numpy.
    """
    if weights.dtype == np.uint16:
        weights = weights.view(np.float16)
    return torch.from_numpy(np.ascontiguousarray(weights)).float().numpy()


class Cuts(NamedTuple):
    """How the tokens of sentences of equal lengths make words. ``[sentences, words]``, the number
    of words being that of the sentence with the most."""

    first: np.ndarray
    """First token of each word; the number of tokens behind a sentence's last word."""
    pieces: np.ndarray
    """Tokens of each word, 0 behind the last."""

    @classmethod
    def of(cls, first: np.ndarray, sizes: np.ndarray, tokens: int) -> "Cuts":
        """From the first token of each word, sentence after sentence, and how many words each has
        (0 for one that is left out)."""
        table = np.full((len(sizes), 1 + sizes.max()), tokens)
        table[np.arange(table.shape[1]) < sizes[:, None]] = first
        return cls(table[:, :-1], np.diff(table, axis=1))


def merge_words(weights: np.ndarray, cuts: Cuts, sentence, word) -> np.ndarray:
    """Attention of chosen words to all words of their sentence: float32 ``[words, rows, heads]``.

    Row i is for word ``word[i]`` of sentence ``sentence[i]``, as the sum over its pieces: their
    mean times their number, which has its largest weight in the same place and costs less.
    Sentences with fewer words than the longest have weights of 0 behind their last word.
    """
    by_query = weights.transpose(1, 0, 2, 3)
    # A row for the first piece of every attending word, then one for every further piece.
    queries = cuts.pieces[sentence, word]
    further = [np.flatnonzero(queries > piece) for piece in range(1, queries.max(initial=1))]
    row = np.concatenate([np.arange(len(word)), *further])
    piece = np.repeat(np.arange(len(further) + 1), [len(word), *map(len, further)])
    row_sentence = sentence[row]
    row_token = cuts.first[row_sentence, word[row]] + piece

    key_token = cuts.first[row_sentence].T
    key_pieces = cuts.pieces[row_sentence].T
    merged = to_float(by_query[row_token, np.minimum(key_token, len(weights) - 1), row_sentence])
    merged[key_pieces == 0] = 0
    for piece in range(1, cuts.pieces.max(initial=1)):
        words, rows = np.nonzero(key_pieces > piece)
        merged[words, rows] += to_float(
            by_query[row_token[rows], key_token[words, rows] + piece, row_sentence[rows]]
        )

    result, done = merged[:, : len(word)], len(word)
    for rows in further:
        result[:, rows] += merged[:, done : done + len(rows)]
        done += len(rows)
    return result
