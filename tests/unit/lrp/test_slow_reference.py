"""Equality with relevance computed neuron by neuron from the definitions."""

import pytest
import torch

from fairseq_headprune.lrp import head_relevance
from fairseq_headprune.lrp.forward import trace
from fairseq_headprune.lrp.network import Network
from fairseq_headprune.units.layout import HeadLayout
from tests.helpers.our_models import gated, set_log_a
from tests.helpers.small_models import batch, randomise, small_transformer
from tests.reference import lrp as reference

RULES = [
    ("alpha-beta", "full", reference.ALPHA_BETA),
    ("alpha-beta", "values", reference.ALPHA_BETA),
    ("z-plus", "full", reference.Z_PLUS),
    ("z-plus", "values", reference.Z_PLUS),
    ("epsilon", "values", reference.make_epsilon(0.1)),
    ("appendix-a2", "full", reference.make_appendix_a2(0.1)),
    ("appendix-a2", "values", reference.make_appendix_a2(0.1)),
]
PRE = dict(encoder_normalize_before=True, decoder_normalize_before=True)
SMALL = dict(encoder_layers=1, decoder_layers=1)
MODELS = {
    "post-norm": {},
    "pre-norm": PRE,
    "pre-norm without the decoder's final norm": dict(no_decoder_final_norm=True, **PRE),
    "pre-norm encoder, post-norm decoder": dict(encoder_normalize_before=True),
    "embedding norms": dict(layernorm_embedding=True, **PRE, **SMALL),
    "tied embeddings": dict(share_all_embeddings=True, **SMALL),
    "learned positions": dict(encoder_learned_pos=True, decoder_learned_pos=True, **SMALL),
    "no positions, no scale": dict(no_token_positional_embeddings=True, no_scale_embedding=True, **SMALL),
    "gelu": dict(activation_fn="gelu", **SMALL),
    "another width in the decoder": dict(
        encoder_embed_dim=24,
        decoder_embed_dim=12,
        decoder_input_dim=20,
        decoder_output_dim=16,
        decoder_layers=1,
    ),
}


def heads_below(layers):
    """A layout of 4 heads a layer with holes, and no head at all where ``layers`` says so."""
    some = ((0, 3), (1, 2, 3))
    return HeadLayout(
        **{k: some if k not in layers else layers[k] for k in ("enc_self", "dec_self", "dec_enc")}
    )


def closed_gates(layout):
    model = gated(gate_types="all")
    randomise(model, seed=4, bias=0.1)
    set_log_a(model, layout)
    return model


def compare(model, rule, mode, definition, lengths=((4, 2), (2, 3))):
    model = model.double()
    src, src_lengths, prev, target = batch(lengths)
    near = dict(rtol=1e-8, atol=1e-10)
    options = {"stabiliser": 0.1} if rule in ("epsilon", "appendix-a2") else {}
    ours = head_relevance(model, src, src_lengths, prev, rule, target, mode, tokens=True, **options)
    logits = trace(Network.of(model, torch.float64), src, prev).logits
    for b, (source, steps) in enumerate(lengths):
        alone = src[b, -source:]
        torch.testing.assert_close(
            logits[b, :steps],
            torch.from_numpy(reference.forward(model, alone, prev[b, :steps])),
            rtol=1e-10,
            atol=1e-10,
        )
        heads, by_source, by_target = reference.head_relevance(
            model, alone, prev[b, :steps], target[b], definition, mode
        )
        assert heads
        for (key, layer, head), values in heads.items():
            mine = ours[key][:steps, b, layer, head]
            torch.testing.assert_close(mine, torch.from_numpy(values), **near)
        for mine, slow in (
            (ours.source[:steps, b, -source:], by_source),
            (ours.target[:steps, b, :steps], by_target),
        ):
            torch.testing.assert_close(mine, torch.from_numpy(slow), **near)
    return ours, heads


# "values" only leaves parts out: no need to see it on every model
CASES = [(name, *rule) for name in MODELS for rule in RULES if rule[0] == "epsilon" or rule[1] == "full"]
CASES += [("pre-norm", *rule) for rule in RULES if rule[0] != "epsilon" and rule[1] == "values"]


@pytest.mark.parametrize("name, rule, mode, definition", CASES)
def test_stock_models(name, rule, mode, definition):
    compare(small_transformer(**MODELS[name]), rule, mode, definition)


@pytest.mark.parametrize("rule, mode, definition", RULES)
def test_closed_and_missing_heads(rule, mode, definition):
    layout = heads_below({"enc_self": ((), (2,)), "dec_enc": ((1,), ())})
    ours, heads = compare(closed_gates(layout), rule, mode, definition)
    assert {(h.type, h.layer, h.head) for h in layout} == set(heads)
    for key, kept in layout.masks({k: 4 for k in ours}).items():
        assert (ours[key][:, :, ~torch.from_numpy(kept)] == 0).all()
        assert (ours[key][ours.valid][:, torch.from_numpy(kept)] != 0).any(0).all()


@pytest.mark.parametrize("rule, mode, definition", RULES)
def test_no_decoder_encoder_head_at_all(rule, mode, definition):
    """Nothing reaches the source then; in the decoder all is as ever."""
    layout = heads_below({"dec_enc": ((), ())})
    ours, _ = compare(closed_gates(layout), rule, mode, definition)
    assert (ours["enc_self"] == 0).all() and (ours.source == 0).all()
    assert (ours["dec_self"][0] != 0).any()


@pytest.mark.parametrize("norm", [{}, PRE], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("rule, mode, definition", RULES)
def test_an_ssru_and_an_output_bias(rule, mode, definition, norm):
    model = gated(gate_types="none", decoder_self="ssru", output_bias=True, decoder_start="zero", **norm)
    randomise(model, seed=4, bias=0.1)
    ours, heads = compare(model, rule, mode, definition, lengths=((4, 4), (2, 3)))
    assert ours["dec_self"].shape == (4, 2, 0, 0)
    assert {type for type, _, _ in heads} == {"enc_self", "dec_enc"}
    assert (ours.target[3, 0, :4] != 0).all()  # the recurrence hands relevance to every earlier step


@pytest.mark.parametrize("rule", ["alpha-beta", "z-plus", "epsilon", "appendix-a2"])
def test_an_ssru_conserves_relevance(rule):
    """Without biases, which the epsilon rule lets keep their part."""
    model = gated(gate_types="none", decoder_self="ssru")
    randomise(model, seed=4, bias=0.0)
    src, lengths, prev, _ = batch([(6, 4), (2, 5)])
    signed = rule in ("epsilon", "appendix-a2")
    options = {"stabiliser": 1e-12} if signed else {}
    result = head_relevance(model, src, lengths, prev, rule, tokens=True, **options)
    size = (result.source.abs().sum(-1) + result.target.abs().sum(-1)).clamp_min(1)
    bound = 1e-6 if signed else 5e-3
    assert (result.residual / size)[result.valid].abs().max() < bound
