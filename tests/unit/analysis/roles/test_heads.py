"""The definitions on arrays, each beside its slow reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fairseq_headprune.analysis.frequencies import Frequencies
from fairseq_headprune.analysis.merging import to_float
from fairseq_headprune.analysis.roles import heads as roles
from tests.reference import head_roles

# Few different weights, so that ties and rows of zeros are common.
weights = st.sampled_from([0.0, 0.1, 0.2, 0.5])


def attention(keys, queries, sentences=2, heads=3):
    return arrays.arrays(np.float16, (keys, queries, sentences, heads), elements=weights.map(np.float16))


sizes = st.tuples(st.integers(1, 5), st.integers(1, 5))


def bits(array):
    return np.ascontiguousarray(array).view(np.uint16)


@settings(max_examples=40, deadline=None)
@given(sizes.flatmap(lambda s: attention(*s)))
def test_largest_gives_every_row_one_vote(array):
    found = roles.largest(bits(array))
    vote = found.vote()
    for index in np.ndindex(array.shape[1:]):
        expected = head_roles.row_votes(list(array[(slice(None), *index)].astype(float)))
        assert to_float(found.weight)[index] == array[(slice(None), *index)].max()
        assert found.count[index] == len(expected)
        given_ = {k: vote[index] for k in np.flatnonzero(found.at[(slice(None), *index)]) if vote[index]}
        assert given_ == pytest.approx({k: float(v) for k, v in expected.items()})


@settings(max_examples=40, deadline=None)
@given(sizes.flatmap(lambda s: attention(*s)))
def test_offset_votes(array):
    votes = roles.offset_votes(roles.largest(bits(array)))
    keys, queries, sentences, heads = array.shape
    for sentence in range(sentences):
        for head in range(heads):
            expected = np.zeros(keys + queries - 1)
            for query in range(queries):
                row = array[:, query, sentence, head].astype(float)
                for key, part in head_roles.row_votes(list(row)).items():
                    expected[key - query + queries - 1] += float(part)
            np.testing.assert_allclose(votes[sentence, head], expected, atol=1e-6)


def test_offset_votes_beyond_a_byte():
    keys = 300
    array = np.zeros((keys, keys, 1, 1), np.float16)
    array[np.arange(keys) - 1, np.arange(keys)] = 1  # -1 for all but the first, which sees the last
    array[:, 5] = 0.25
    votes = roles.offset_votes(roles.largest(bits(array)))[0, 0]
    assert votes[keys - 1 - 1] == pytest.approx(298 + 1 / 300)
    assert votes[-1] == 1
    assert votes.sum() == pytest.approx(300)


@pytest.mark.parametrize("type", ["enc_self", "dec_self", "dec_enc"])
@pytest.mark.parametrize("source, target", [("a b c", "x y"), ("a", "x y z w"), ("a b", "")])
def test_spans_and_chances(type, source, target):
    source, target = [*source.split(), "</s>"], [*target.split(), "</s>"]
    queries, keys = roles.token_spans(type, source, target)
    expected = head_roles.kept(type, source, target)
    size = len(target) if type.startswith("dec") else len(source)
    width = len(target) if type == "dec_self" else len(source)
    assert (list(range(size))[queries], list(range(width))[keys]) == expected
    q, k = len(expected[0]), len(expected[1])
    if q and k:
        chances = roles.offset_chances(type, q, k)
        for offset in range(-q + 1, k):
            sentences = [(None, source, target)]
            assert chances[offset + q - 1] == head_roles.possible(sentences, type, offset)


def rare(sentences, counts, top):
    """`roles.rare_tokens` for lists of tokens, as lists of positions or None."""
    frequencies = Frequencies(counts, top)
    numbers = frequencies.numbers(token for tokens in sentences for token in tokens)
    numbers = numbers.reshape(len(sentences), -1)
    found = roles.rare_tokens(numbers, *frequencies.look_up(numbers))
    return [
        (list(np.flatnonzero(first)), list(np.flatnonzero(two))) if first.any() else None
        for first, two in zip(*found)
    ]


token = st.sampled_from(["a", "b", "c", "d", "e", "<unk>"])


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(token, min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 4)),
    st.integers(1, 4),
)
def test_rare_tokens(sentences, counts, top):
    expected = [head_roles.rare_positions(tokens, counts, top) for tokens in sentences]
    assert rare(sentences, counts, top) == expected


def test_rare_tokens_by_hand():
    counts = {"the": 900, "dog": 30, "axolotl": 1, "newt": 2}
    sentences = [
        "the axolotl the dog",
        "axolotl the axolotl newt",
        "the <unk> axolotl the",
        "olm <unk> the dog",
        "the the the the",
        "newt newt newt newt",
    ]
    assert rare([text.split() for text in sentences], counts, 1) == [
        ([1], [1, 3]),
        ([0, 2], [0, 2, 3]),
        ([1], [1, 2]),
        ([0, 1], [0, 1]),
        None,
        ([0, 1, 2, 3], [0, 1, 2, 3]),
    ]


def test_relevance_shares():
    shares = roles.relevance_shares(np.array([[1, 3, 2, 0], [0, 0, 1, 1.0]]), [0, 0, 1, 1])
    np.testing.assert_allclose(shares, [[0.25, 0.75, 1, 0], [np.nan, np.nan, 0.5, 0.5]])
    np.testing.assert_allclose(roles.relevance_shares([[-1, 3]], [0, 0]), [[0.25, 0.75]])


LIMITS = roles.Thresholds()


@pytest.mark.parametrize(
    "share, possible, over, expected",
    [(0.9, 0.95, "all", True), (0.89, 0.95, "all", False), (0.89, 0.95, "possible", True),
     (0.3 * 3, 0.9, "all", True), (None, None, "all", False)],
)  # fmt: skip
def test_is_positional(share, possible, over, expected):
    measured = {"share": share, "share_possible": possible}
    assert roles.is_positional(measured, LIMITS._replace(positional_over=over)) is expected


@pytest.mark.parametrize(
    "accuracy, baseline, kind, expected",
    [(0.5, 0.4, "points", True), (0.49, 0.4, "points", False), (0.49, 0.4, "relative", True),
     (0.43, 0.4, "relative", False), (0.1, 0.0, "points", True), (None, 0.4, "points", False),
     (0.7, 0.6, "points", True)],
)  # fmt: skip
def test_is_syntactic(accuracy, baseline, kind, expected):
    assert roles.is_syntactic(accuracy, baseline, LIMITS._replace(margin_kind=kind)) is expected


@pytest.mark.parametrize(
    "share, chance, expected",
    [
        (0.6, 0.1, True),
        (0.5, 0.1, True),
        (0.49, 0.1, False),
        (0.55, 0.5, False),
        (None, None, False),
    ],
)
def test_is_rare(share, chance, expected):
    assert roles.is_rare(share, chance, LIMITS) is expected


def test_functions_as_texts():
    for function in (
        roles.Function("positional", "-1"),
        roles.Function("syntactic", "nsubj", "d->h"),
        roles.Function("rare"),
    ):
        assert roles.Function.parse(str(function)) == function
    measured = {"accuracy": 0.6, "baseline": 0.45}
    record = {
        "positional": {"offset": 1, "share": 0.85, "share_possible": 0.93},
        "syntactic": {"nsubj": {"h->d": measured, "d->h": {"accuracy": 0.5, "baseline": 0.45}}},
        "rare": {"two_rarest": 0.83, "two_rarest_chance": 0.2},
    }
    assert roles.functions(record, LIMITS) == [
        "positional +1",
        "syntactic nsubj h->d",
        "rare words",
    ]


def test_most_frequent_prefers_near_positions():
    assert roles.most_frequent({-3: 5, 1: 5, -1: 5, 2: 4}) == (-1, 5)
    assert roles.most_frequent({}) == (None, 0)
    assert roles.most_frequent({2: 0}) == (None, 0)
