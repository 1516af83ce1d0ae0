"""The K heads of highest score."""

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.selection.choose import highest
from fairseq_headprune.units.layout import Head, HeadLayout

FULL = HeadLayout.full(2, 2, 1, 2)
SCORES = {head: float(i % 4) for i, head in enumerate(FULL)}


@pytest.mark.parametrize(
    "target, kept",
    [
        ({"enc_self": 1}, {"enc_self": [[], [1]], "dec_self": [[0, 1]], "dec_enc": [[0, 1]]}),
        ({"enc_self": 0, "dec_self": 1}, {"enc_self": [[], []], "dec_self": [[1]], "dec_enc": [[0, 1]]}),
        ({"total": 8}, FULL.to_dict()),
        # equal scores: the standard order decides
        ({"total": 3}, {"enc_self": [[], [0, 1]], "dec_self": [[]], "dec_enc": [[1]]}),
    ],
)
def test_highest(target, kept):
    assert highest(SCORES, target, FULL).to_dict() == kept


def test_highest_refuses_more_heads_than_there_are():
    with pytest.raises(UserError, match="asks for 9 heads in all"):
        highest(SCORES, {"total": 9}, FULL)


def test_heads_without_a_score_stay_and_do_not_count():
    scores = {h: s for h, s in SCORES.items() if h.type == "dec_enc"}
    assert highest(scores, {"total": 1}, FULL).counts() == {"enc_self": 4, "dec_self": 2, "dec_enc": 1}
    with pytest.raises(UserError, match="asks for 3 heads in all, the model has 2"):
        highest(scores, {"total": 3}, FULL)


def test_types_that_the_target_does_not_mention_keep_what_acts():
    acting = FULL.without([Head("dec_enc", 0, 1)])
    kept = highest(SCORES, {"enc_self": 1}, FULL, acting)
    assert kept.counts() == {"enc_self": 1, "dec_self": 2, "dec_enc": 1}
