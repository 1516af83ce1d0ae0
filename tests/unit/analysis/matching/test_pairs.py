"""Heads matched across models."""

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_headprune.analysis import head_table
from fairseq_headprune.analysis.matching import pairs as matching
from fairseq_headprune.analysis.matching import shared_sentences
from fairseq_headprune.dump import open_dump
from fairseq_headprune.units.layout import Head
from tests.helpers.dumps import random_attention, write_dump
from tests.helpers.heads_json import heads_json

HEADS = [Head("enc_self", 0, i) for i in range(6)]


def record(**more):
    base = {
        "functions": [],
        "confidence": 0.5,
        "positional": {"offset": -1, "share": 0.4},
        "syntactic": None,
        "rare": None,
    }
    return {**base, **more}


def similarity(one, two):
    return matching.role_similarity(matching.role_vector(one), matching.role_vector(two))


def test_equal_roles_are_1_and_different_positions_are_far():
    a = record(positional={"offset": -1, "share": 0.95})
    b = record(positional={"offset": 1, "share": 0.95})
    assert similarity(a, a) == 1
    assert similarity(a, b) == pytest.approx(1 - 0.95 / 2)  # confidence is equal


def test_a_shared_function_counts_and_none_does_not():
    a, b = record(functions=["rare words"]), record(functions=["rare words"])
    assert similarity(a, b) == 1
    assert similarity(a, record()) == pytest.approx(1 - 1 / 3)
    assert similarity(record(), record()) == 1


def test_measures_that_one_lacks_are_left_out():
    a = record(
        syntactic={"nsubj": {"h->d": {"accuracy": 0.6}, "d->h": {"accuracy": None}}}, rare={"two_rarest": 0.8}
    )
    assert similarity(a, record()) == 1
    b = record(syntactic={"nsubj": {"h->d": {"accuracy": 0.2}, "d->h": {"accuracy": 0.9}}})
    assert similarity(a, b) == pytest.approx(1 - 0.4 / 3)
    assert np.isnan(matching.role_similarity({}, {}))


def slow_jensen_shannon(p, q):
    total = 0.0
    for a, b in zip(p, q):
        m = (a + b) / 2
        total += (a * np.log2(a / m) if a else 0) / 2 + (b * np.log2(b / m) if b else 0) / 2
    return total


def test_attention_similarity_is_1_minus_the_divergence():
    rng = np.random.default_rng(1)
    one, two = random_attention(rng, 3, 4, 5), random_attention(rng, 2, 4, 5)
    two[0] = one[1]
    found = matching.attention_similarity(one, two)
    for i in range(3):
        for j in range(2):
            slow = np.mean([slow_jensen_shannon(p, q) for p, q in zip(one[i], two[j])])
            assert found[i, j] == pytest.approx(1 - slow)
    assert found[1, 0] == pytest.approx(1)
    apart = matching.attention_similarity(np.array([[[1.0, 0.0]]]), np.array([[[0.0, 1.0]]]))
    assert apart[0, 0] == pytest.approx(0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
def test_matching_is_the_best_of_all_matchings(rows, columns, seed):
    values = np.random.default_rng(seed).random((rows, columns))
    found = matching.match(values, HEADS[:rows], HEADS[:columns], 0.0)
    total = sum(m.similarity for m in found if m.other)
    small, large = sorted((rows, columns))
    wide = values if rows <= columns else values.T
    best = max(sum(wide[i, p[i]] for i in range(small)) for p in permutations(range(large), small))
    assert total == pytest.approx(best)
    partners = [m.other for m in found if m.other]
    assert len(partners) == len(set(partners)) == small


def test_what_is_not_alike_stays_alone():
    values = np.array([[0.9, 0.1], [0.2, 0.3]])
    found = matching.match(values, HEADS[:2], HEADS[:2], 0.5)
    assert found[0].other == HEADS[0] and found[1] == (HEADS[1], None, None)


def test_combine_takes_what_there_is():
    role, attention = np.array([[0.2, np.nan]]), np.array([[0.6, 0.4]])
    assert matching.combine(role, attention, 0.5).tolist() == [[0.4, 0.4]]
    assert matching.combine(role, None, 0.5) is role
    assert matching.combine(role, np.array([[np.nan, np.nan]]), 0.5)[0, 0] == 0.2


def permuted_dump(tmp_path, order, pieces):
    """Two dumps of one sentence; heads of the second stand in another order, and its words are cut
    differently."""
    rng = np.random.default_rng(3)
    words = ["dogs", "run", "fast"]
    maps = random_attention(rng, 1, 4, 4, 4)
    write_dump(tmp_path / "one", [{"source": words, "attention": {"enc_self": maps}}], heads=4)
    moved = maps[:, order]
    source = words
    if pieces:
        source = ["do@@", "gs", "run", "fast"]
        split = np.zeros((1, 4, 5, 5))
        split[:, :, 1:, 1:] = moved
        split[:, :, 0] = split[:, :, 1]
        split[..., 0] = split[..., 1] / 2
        split[..., 1] /= 2
        moved = split
    write_dump(tmp_path / "two", [{"source": source, "attention": {"enc_self": moved}}], heads=4)
    return open_dump(tmp_path / "one"), open_dump(tmp_path / "two")


@pytest.mark.parametrize("pieces", [False, True])
def test_permuted_heads_are_found_by_their_attention(tmp_path, pieces):
    order = [2, 0, 3, 1]
    one, two = permuted_dump(tmp_path, order, pieces)
    found, number = shared_sentences.mean_similarity(one, two, "enc_self", 10)
    assert number == 1
    heads = HEADS[:4]
    pairs = matching.match(found, heads, heads, 0.5)
    assert [m.other.head for m in pairs] == [order.index(h) for h in range(4)]
    assert all(m.similarity > 0.999 for m in pairs)


def test_sentences_with_other_words_are_not_compared(tmp_path):
    rng = np.random.default_rng(3)
    for name, words in (("one", ["a", "b"]), ("two", ["a", "c"])):
        write_dump(
            tmp_path / name,
            [{"source": words, "attention": {"enc_self": random_attention(rng, 1, 2, 3, 3)}}],
            heads=2,
        )
    found = shared_sentences.mean_similarity(
        open_dump(tmp_path / "one"), open_dump(tmp_path / "two"), "enc_self", 10
    )
    assert found == (None, 0)


def test_the_same_functions_at_other_numbers_are_matched(tmp_path):
    functions = {
        ("enc_self", 0, 0): "rare words",
        ("enc_self", 1, 2): "positional -1",
        ("enc_self", 2, 1): "syntactic nsubj h->d",
    }
    moved = {
        ("enc_self", 0, 5): "rare words",
        ("enc_self", 0, 1): "positional -1",
        ("enc_self", 3, 7): "syntactic nsubj h->d",
    }
    tables = []
    for name, chosen, seed in (("a", functions, 1), ("b", moved, 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "heads.json").write_text(json.dumps(heads_json(functions=chosen, seed=seed)))
        tables.append(head_table.read(str(tmp_path / name / "heads.json")))
    role, heads, others = matching.matrix(tables[0].records, tables[1].records)
    found = {m.head: m.other for m in matching.match(role, heads, others, 0.5)}
    for text in functions.values():
        one = next(Head(*k) for k, v in functions.items() if v == text)
        two = next(Head(*k) for k, v in moved.items() if v == text)
        assert found[one] == two
