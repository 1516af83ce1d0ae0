"""The short way through the decoder in beam search, against the way through its layers."""

import pytest
import torch

from fairseq_headprune.models.gated_transformer import SEARCH
from fairseq_headprune.nn import decoder_step
from fairseq_headprune.units.layout import HeadLayout
from tests.helpers.our_models import gated, set_log_a
from tests.helpers.small_models import batch, randomise
from tests.helpers.translate import beam, same_translations, step_by_step

LENGTHS = [(5, 6), (7, 4), (3, 5), (6, 6)]
SOME = HeadLayout(((0, 3), (2,)), ((1,), (0, 1, 2)), ((0, 1, 3), (2, 3)))
NO_HEADS = HeadLayout(((), (1,)), ((), (0, 2)), ((1,), ()))
OPTIONS = {
    "post-norm": {},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "gelu, learned positions": dict(activation_fn="gelu", decoder_learned_pos=True),
    "no positions, embedding norm": dict(no_token_positional_embeddings=True, layernorm_embedding=True),
    "tied": dict(share_all_embeddings=True),
    "narrow embeddings": dict(decoder_input_dim=8, decoder_output_dim=8),
}


def model_with(layout=None, open_layout=None, **options):
    settings = dict(gate_types="none", head_layout=layout.to_json()) if layout else {}
    model = gated(**settings, **options)
    randomise(model, seed=3, bias=0.1)
    if open_layout is not None:
        set_log_a(model, open_layout)
    return model


@pytest.fixture
def the_long_way(monkeypatch):
    def switch():
        monkeypatch.setattr(decoder_step, "can_step", lambda decoder: False)

    return switch


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("prepared", [False, True])
def test_search_and_logits_are_those_of_the_layers(options, prepared, the_long_way):
    src, lengths, prev, _ = batch(LENGTHS)
    model = model_with(SOME, **options)
    reference = step_by_step(model, src, lengths, prev)
    if prepared:
        model.make_generation_fast_()
    taken = decoder_step.can_step(model.decoder)
    steps, found = step_by_step(model, src, lengths, prev), beam(model, src, lengths)
    the_long_way()
    assert taken
    whole = ~prev.eq(1)
    for logits in (reference, step_by_step(model, src, lengths, prev)):
        torch.testing.assert_close(steps[whole], logits[whole], atol=1e-5, rtol=1e-5)
    assert same_translations(found, beam(model, src, lengths), tolerance=1e-5)


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("layout", [SOME, NO_HEADS], ids=["some heads", "layers without heads"])
def test_closed_gates_and_removed_heads(layout, beam_size, the_long_way):
    src, lengths, _, _ = batch(LENGTHS)
    gates, pruned = model_with(open_layout=layout), model_with(layout)
    results = [beam(m, src, lengths, beam_size) for m in (gates, pruned)]
    the_long_way()
    for model, found in zip((gates, pruned), results):
        assert same_translations(found, beam(model, src, lengths, beam_size), tolerance=1e-5)


def test_hypotheses_carry_the_attention_that_fairseq_gives(the_long_way):
    from fairseq.sequence_generator import SequenceGenerator

    from tests.helpers.small_models import dictionary

    src, lengths, _, _ = batch(LENGTHS)
    model = model_with(SOME)
    sample = {"net_input": {"src_tokens": src, "src_lengths": lengths}}
    generator = SequenceGenerator([model], dictionary(12), beam_size=3, max_len_b=8)
    found = generator.generate([model], sample)
    the_long_way()
    for ours, theirs in zip(found, generator.generate([model], sample)):
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a["attention"], b["attention"], atol=1e-5, rtol=1e-5)


def test_where_the_short_way_is_not_taken():
    model = model_with()
    assert decoder_step.can_step(model.decoder)
    model.decoder.layers[0].dropout_module.apply_during_inference = True
    assert decoder_step.can_step(model.decoder)  # dropout of 0
    model.decoder.layers[0].dropout_module.p = 0.1
    assert not decoder_step.can_step(model.decoder)
    model.decoder.layers[0].dropout_module.p = 0.0
    model.decoder.layers[1].encoder_attn.recorder = []
    assert not decoder_step.can_step(model.decoder)

    src, lengths, prev, _ = batch(LENGTHS)
    state = {}
    model.train()
    model.decoder(prev[:, :1], model.encoder(src, lengths), incremental_state=state)
    assert SEARCH not in state


def test_preparing_keeps_values_and_shares_storage():
    model = model_with(SOME, share_all_embeddings=True)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model.make_generation_fast_()
    after = model.state_dict()
    assert set(after) == set(before)
    assert all(torch.equal(after[k], before[k]) for k in before)
    attention = model.decoder.layers[0].self_attn
    assert attention.k_proj.weight.untyped_storage().data_ptr() == (
        attention.packed_weight.untyped_storage().data_ptr()
    )
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite_and_close(dtype):
    src, lengths, prev, _ = batch(LENGTHS)
    model = model_with(SOME)
    exact = step_by_step(model, src, lengths, prev)
    model.make_generation_fast_()
    halves = step_by_step(model.to(dtype), src, lengths, prev)
    whole = ~prev.eq(1)
    assert halves.dtype == dtype and torch.isfinite(halves[whole]).all()
    tolerance = 2e-2 if dtype == torch.float16 else 2e-1
    torch.testing.assert_close(halves.float()[whole], exact[whole], atol=tolerance, rtol=tolerance)
