"""Scores by name, and their files."""

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.selection import scores
from fairseq_headprune.units.layout import Head, HeadLayout

SCORES = {head: float(i % 4) for i, head in enumerate(HeadLayout.full(2, 2, 1, 2))}


def test_json_round_trip():
    assert scores.from_json(scores.to_json(SCORES)) == SCORES
    assert scores.to_json({Head("dec_enc", 1, 3): 0.5}) == {"dec-enc:1:3": 0.5}


def test_an_unknown_criterion_is_refused():
    with pytest.raises(UserError, match="unknown criterion 'luck': use gates, gradient, confidence, lrp-"):
        scores.score_heads("luck", "model.pt", "data")


def test_scores_of_other_numbers_of_sentences_are_kept_apart(tmp_path, monkeypatch):
    asked = []

    def score(criterion, checkpoint, data, seed, sentences):
        asked.append((criterion, sentences))
        return {Head("enc_self", 0, 0): float(len(asked))}

    monkeypatch.setattr(scores, "score_heads", score)
    first = scores.cached_scores("lrp-epsilon", "m", "d", tmp_path)
    assert scores.cached_scores("lrp-epsilon", "m", "d", tmp_path, sentences=60) == first
    assert scores.cached_scores("lrp-epsilon", "m", "d", tmp_path, sentences=5) != first
    scores.cached_scores("gradient", "m", "d", tmp_path)
    assert asked == [("lrp-epsilon", 60), ("lrp-epsilon", 5), ("gradient", 200)]


@pytest.mark.parametrize(
    "name, asked, expected",
    [
        ("", 0, 0),
        ("random", 7, 0),
        ("gates", 0, 0),
        ("gradient", 0, 200),
        ("gradient", 5, 5),
        ("lrp-epsilon", 0, 60),
    ],
)
def test_number_of_sentences(name, asked, expected):
    assert scores.sentences_for(name, asked) == expected
