"""Attention between words, beside the slow definition."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fairseq_headprune.analysis.merging import Cuts, merge_words, to_float
from tests.reference import head_roles

# Few different weights, so that ties and rows of zeros are common.
weights = st.sampled_from([0.0, 0.125, 0.25, 0.5]).map(np.float16)


def bits(array):
    return np.ascontiguousarray(array).view(np.uint16)


@st.composite
def cut_sentences(draw):
    """Weights of several sentences of as many tokens, how tokens make words, and chosen words."""
    size = draw(st.integers(1, 6))
    number = draw(st.integers(1, 3))
    array = draw(arrays.arrays(np.float16, (size, size, number, 2), elements=weights))
    starts = [
        (sorted({0} | draw(st.sets(st.integers(0, size - 1)))) if i == 0 or draw(st.booleans()) else ())
        for i in range(number)
    ]
    rows = [(s, w) for s in range(number) for w in range(len(starts[s])) if draw(st.booleans())]
    return array, starts, rows or [(0, 0)]


def cuts(starts, tokens):
    return Cuts.of(np.array([t for s in starts for t in s]), np.array([len(s) for s in starts]), tokens)


def words(array, starts, sentence, head):
    """Attention between the words of one sentence, by the definition."""
    edges = [*starts[sentence], len(array)]
    units = [list(range(a, b)) for a, b in zip(edges, edges[1:])]
    return head_roles.merge(array[:, :, sentence, head].T.astype(float).tolist(), units)


@settings(max_examples=60, deadline=None)
@given(cut_sentences())
def test_merge_words(case):
    array, starts, rows = case
    sentence, word = np.array(rows).T
    merged = merge_words(bits(array), cuts(starts, len(array)), sentence, word)
    for row, (s, w) in enumerate(rows):
        for head in range(2):
            number = [*starts[s], len(array)][w + 1] - starts[s][w]
            expected = np.array(words(array, starts, s, head)[w]) * number
            np.testing.assert_allclose(merged[: len(expected), row, head], expected, rtol=1e-6)
            assert (merged[len(expected) :, row, head] == 0).all()


def test_merge_words_by_hand():
    # Two pieces of "cotton" are attended with .2 + .3; as query its pieces' rows are added.
    matrix = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.0, 0.5, 0.5]])  # [query, key]
    array = bits(matrix.T.astype(np.float16))[:, :, None, None]
    merged = merge_words(array, cuts([[0, 2]], 3), np.array([0, 0]), np.array([0, 1]))[:, :, 0]
    np.testing.assert_allclose(merged, [[0.5 + 0.7, 0.5], [0.5 + 0.3, 0.5]], atol=1e-3)


def test_to_float_is_exact_for_every_half():
    every = np.arange(0x7C00, dtype=np.uint16)
    assert (to_float(every) == every.view(np.float16).astype(np.float64)).all()
