"""Sentences with a relation beside sentences of the same length without it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_headprune.analysis.ablation.contrast import Contrast
from fairseq_headprune.analysis.ablation.sentence_loss import Losses
from tests.reference.matched_change import matched_change

SENTENCES = st.lists(
    st.tuples(st.integers(1, 4), st.booleans(), st.floats(-5, 5), st.integers(1, 9), st.booleans()),
    min_size=1,
)


def measure(length, has, change, tokens, usable=None, resamples=50):
    length, has, tokens = np.array(length), np.array(has, bool), np.array(tokens)
    before = Losses(np.full(len(length), 3.0), tokens)
    after = Losses(before.nats + np.array(change), tokens)
    usable = np.ones(len(length), bool) if usable is None else np.array(usable, bool)
    return Contrast(length, resamples, 0.95, 1).measure(before, after, has, usable)


@settings(deadline=None)
@given(SENTENCES)
def test_as_the_reference(sentences):
    found = measure(*zip(*sentences))
    slow = matched_change([s[:4] for s in sentences if s[4]])
    with_, without, *counts = slow
    assert [found[k] for k in ("sentences_with", "sentences_without", "unmatched")] == counts
    if with_ is None:
        assert found["with"] is found["without"] is found["contrast"] is found["contrast_low"] is None
    else:
        assert found["with"] == pytest.approx(with_, abs=1e-9)
        assert found["without"] == pytest.approx(without, abs=1e-9)
        assert found["contrast"] == pytest.approx(with_ - without, abs=1e-9)


def test_length_is_no_relation():
    # long sentences suffer more and have the relation more often: no effect of the relation itself
    rng = np.random.default_rng(1)
    length = rng.integers(4, 20, 3000)
    has = rng.random(3000) < length / 20
    change = length * (0.01 * length + rng.normal(0, 0.05, 3000))
    found = measure(length, has, change, length, resamples=300)
    naive = change[has].sum() / length[has].sum() - change[~has].sum() / length[~has].sum()
    assert naive > 0.02
    assert found["contrast_low"] < 0 < found["contrast_high"] and abs(found["contrast"]) < 0.01
    planted = measure(length, has, change + 0.1 * has * length, length, resamples=300)
    assert 0.08 < planted["contrast_low"] < 0.1 < planted["contrast_high"] < 0.12
    assert found["with_low"] < found["with"] < found["with_high"]


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(100):
        length = rng.integers(4, 8, 200)
        has = rng.random(200) < 0.4
        change = length * (0.1 + 0.2 * has + rng.normal(0, 0.3, 200))
        found = measure(length, has, change, length, resamples=200)
        held += found["contrast_low"] <= 0.2 <= found["contrast_high"]
    assert 87 <= held <= 100
