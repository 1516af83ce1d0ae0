"""Equality with numbers that the authors' own code printed, on a model that carries its weights."""

import numpy as np
import pytest
import torch

from fairseq_headprune.lrp import head_relevance
from fairseq_headprune.lrp.forward import trace
from fairseq_headprune.lrp.network import Network
from fairseq_headprune.units.layout import ATTENTION_TYPES
from tests.helpers.double_precision import softmax_in_double
from tests.helpers.small_models import authors_input, authors_model

SENTENCES = ("s0", "s1", "s2")
SETTINGS = [
    ("alpha-beta", "full", "lrp_nlda_float64", "ab1_ac0"),
    ("alpha-beta", "values", "lrp_nlda_float64", "ab1_ac1"),
    ("z-plus", "full", "lrp2019_nlda_float64", "v2019"),
]


@pytest.fixture(scope="module")
def oracle(shared):
    def load(name):
        return np.load(shared / "oracle" / f"{name}.npz")

    return load


@pytest.fixture(scope="module")
def model(oracle):
    return authors_model(oracle("weights_nlda"))


def close(ours, theirs, tolerance):
    theirs = torch.from_numpy(np.asarray(theirs))
    return ((ours - theirs).abs() <= tolerance * theirs.abs().clamp_min(1e-300)).all()


@pytest.mark.parametrize("run", SENTENCES)
def test_forward(oracle, model, run):
    forward = oracle("forward_nlda_float64")
    src, lengths, prev = authors_input(run, forward)
    ours = trace(Network.of(model, torch.float64), src, prev).logits
    theirs = torch.from_numpy(forward[f"{run}/logits"])
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    with torch.no_grad(), softmax_in_double():
        torch.testing.assert_close(model(src, lengths, prev)[0], ours, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("run", SENTENCES)
@pytest.mark.parametrize("rule, attention, file, setting", SETTINGS)
def test_relevance(oracle, model, run, rule, attention, file, setting):
    inputs = authors_input(run, oracle("forward_nlda_float64"))
    numbers = oracle(file)
    ours = head_relevance(model, *inputs, rule=rule, attention=attention, tokens=True)
    for key in ATTENTION_TYPES:
        assert close(ours[key], numbers[f"{run}/{setting}/head_sum/{key}"], 1e-8)
    assert close(ours.source, numbers[f"{run}/{setting}/emb_inp"].sum(-1), 1e-8)
    target = numbers[f"{run}/{setting}/emb_out_before_crop"].sum(-1)
    future = target == 0  # and what is 0 there is 0 here
    assert close(ours.target, target, 1e-8) and (ours.target[torch.from_numpy(future)] == 0).all()


@pytest.mark.parametrize("rule, attention, file, setting", SETTINGS)
def test_a_padded_batch_is_the_single_sentences(oracle, model, rule, attention, file, setting):
    """The authors' factors run over the whole batch; ours give their results at batch size 1."""
    inputs = authors_input("batch", oracle("forward_nlda_float64"))
    ours = head_relevance(model, *inputs, rule=rule, attention=attention)
    for b, run in enumerate(SENTENCES):
        for key in ATTENTION_TYPES:
            theirs = oracle(file)[f"{run}/{setting}/head_sum/{key}"]
            assert close(ours[key][: len(theirs), b : b + 1], theirs, 1e-8)


@pytest.mark.parametrize("run", SENTENCES)
@pytest.mark.parametrize("attention, setting", [("full", "ab1_ac0"), ("values", "ab1_ac1")])
def test_single_precision(oracle, model, run, attention, setting):
    inputs = authors_input(run, oracle("forward_nlda_float64"))
    ours = head_relevance(model, *inputs, attention=attention, dtype=torch.float32)
    for key in ATTENTION_TYPES:
        theirs = oracle("lrp_nlda_float64")[f"{run}/{setting}/head_sum/{key}"]
        assert ours[key].dtype == torch.float32
        assert close(ours[key].double(), theirs, 1e-4)


def test_start_is_their_top1(oracle, model):
    forward = oracle("forward_nlda_float64")
    for run in SENTENCES:
        ours = head_relevance(model, *authors_input(run, forward))
        assert ours.start.tolist() == forward[f"{run}/top1"].tolist()
