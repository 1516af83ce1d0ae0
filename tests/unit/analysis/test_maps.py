"""Attention maps that are saved beside the tables."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_headprune.analysis import maps
from fairseq_headprune.units.layout import Head


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_weight_is_kept_to_half_of_1_255(weights):
    kept = maps.quantise(np.array([weights])) / maps.SCALE
    assert np.abs(kept - weights).max() <= 0.5 / 255 + 1e-6


def sentence():
    index = {"enc_self": [(0, 1), (2, 0)], "dec_self": [(0, 0)], "dec_enc": [(0, 0)]}
    weights = {
        "enc_self": np.arange(18, dtype=np.uint8).reshape(2, 3, 3),
        "dec_self": np.ones((1, 2, 2), np.uint8),
        "dec_enc": np.full((1, 2, 3), 255, np.uint8),
    }
    return maps.Sentence(7, ["a", "dog", "</s>"], ["Hund", "</s>"], index, weights)


def test_what_is_written_is_read_back():
    one = sentence()
    two = maps.from_json(json.loads(json.dumps(maps.to_json(one))))
    assert (two.id, two.source, two.target, two.index) == (one.id, one.source, one.target, one.index)
    np.testing.assert_array_equal(two.map(Head("enc_self", 2, 0)), one.weights["enc_self"][1] / 255)
    with pytest.raises(KeyError):
        two.map(Head("enc_self", 2, 1))


def test_rows_and_columns_of_each_type():
    one = sentence()
    assert one.labels("enc_self") == (one.source, one.source)
    assert one.labels("dec_self") == (["Hund", "</s>"], ["</s>", "Hund"])  # keys are the decoder's inputs
    assert one.labels("dec_enc") == (one.target, one.source)
    assert one.heads("enc_self") == [Head("enc_self", 0, 1), Head("enc_self", 2, 0)]
