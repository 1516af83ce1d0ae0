"""Appendix A.3: normalised over the heads of a layer, averaged over all generation steps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.lrp import Average, average, head_relevance, normalise
from tests.helpers.small_models import batch, small_transformer


def test_normalise_by_hand():
    relevance = torch.tensor([[1.0, 3.0], [0.0, 0.0], [-1.0, 1.0]])
    assert normalise(relevance).tolist() == [[0.25, 0.75], [0.0, 0.0], [-0.5, 0.5]]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8))
def test_normalise(values):
    relevance = torch.tensor(values, dtype=torch.float64)
    share = normalise(relevance)
    assert share.isfinite().all()
    total = share.abs().sum()
    assert total == 0 if not relevance.any() else abs(total - 1) < 1e-12
    assert (share * relevance >= 0).all()


def one_batch(steps, valid):
    return {"enc_self": torch.tensor(steps, dtype=torch.float64)}, torch.tensor(valid)


def test_every_step_of_every_sentence_counts_once():
    # 2 steps, 2 sentences, 1 layer, 2 heads; the second sentence has one step
    steps = [[[[1.0, 1.0]], [[3.0, 1.0]]], [[[0.0, 5.0]], [[9.0, 9.0]]]]
    total = Average().add(*one_batch(steps, [[True, True], [True, False]]))
    total.add(*one_batch([[[[0.0, 2.0]]]], [[True]]))
    assert total.steps == 4 and total.nonfinite == 0
    assert total["enc_self"].tolist() == [[(0.5 + 0.75 + 0 + 0) / 4, (0.5 + 0.25 + 1 + 1) / 4]]


def test_nonfinite_steps_are_left_out_and_counted():
    nan, inf = float("nan"), float("inf")
    steps = [[[[1.0, 1.0]]], [[[nan, 1.0]]], [[[inf, 1.0]]], [[[nan, nan]]]]
    total = Average().add(*one_batch(steps, [[True], [True], [True], [False]]))
    assert (total.steps, total.nonfinite) == (1, 2)
    assert total["enc_self"].tolist() == [[0.5, 0.5]]


def test_average_over_batches_is_the_mean_over_steps():
    model = small_transformer()
    src, lengths, prev, _ = batch([(5, 4), (3, 7), (6, 2)])
    whole = head_relevance(model, src, lengths, prev)
    parts = [head_relevance(model, src[i : i + 1], lengths[i : i + 1], prev[i : i + 1]) for i in range(3)]
    total = average(parts)
    assert total.steps == 13
    for key, table in total.table().items():
        expected = normalise(whole[key])[whole.valid].mean(0)
        torch.testing.assert_close(table, expected)
        torch.testing.assert_close(table.sum(-1), torch.ones(2).double())


def test_too_much_that_is_not_finite_is_an_error():
    bad = {"enc_self": torch.full((3, 1, 1, 2), float("nan"))}
    good = {"enc_self": torch.ones(97, 1, 1, 2)}
    with pytest.raises(UserError, match="3 of 100 generation steps"):
        average([good, bad])
    assert average([good, bad], max_nonfinite=0.05).nonfinite == 3
    with pytest.raises(UserError, match="no generation step"):
        average([])
