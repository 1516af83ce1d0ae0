"""Losses read from a log."""

from fairseq_headprune.experiments.results import valid_loss


def test_a_criterion_without_nll_loss_has_its_loss_for_both():
    assert valid_loss('x | INFO | valid | {"valid_loss": "2.5"}\n') == {"loss": 2.5, "nll_loss": 2.5}
    assert valid_loss("nothing") is None
