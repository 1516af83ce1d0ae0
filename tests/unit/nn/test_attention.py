"""One attention for every model: against the definition, against stock, and path against path."""

import copy

import pytest
import torch

from fairseq_headprune.nn.attention import HeadAttention
from fairseq_headprune.nn.projections import attention_modules, existing_layout, open_layout
from fairseq_headprune.recording.maps import record_attention
from fairseq_headprune.units.gates import HeadGates, fixed_noise
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout
from tests.helpers.our_models import gated, set_log_a, stock
from tests.helpers.small_models import batch, randomise
from tests.helpers.translate import beam, logits, same_translations, step_by_step
from tests.reference.gated_attention import gated_attention

LENGTHS = [(5, 6), (7, 4), (3, 5), (6, 6)]
SOME = HeadLayout(((0, 3), (2,)), ((1,), (0, 1, 2)), ((0, 1, 3), (2, 3)))
ONE_EMPTY = {
    "enc_self": HeadLayout(((), (1,)), SOME.dec_self, SOME.dec_enc),
    "dec_self": HeadLayout(SOME.enc_self, ((2,), ()), SOME.dec_enc),
    "dec_enc": HeadLayout(SOME.enc_self, SOME.dec_self, ((1, 2), ())),
    "all but one": HeadLayout(((), ()), ((), ()), ((3,), ())),
}
PRE_NORM = dict(encoder_normalize_before=True, decoder_normalize_before=True)


def pair(seed=3, layout=None, **options):
    """A gated model with the gates of ``layout`` open, and a stock model with the same weights."""
    ours, theirs = gated(**options), stock(**options)
    randomise(theirs, seed, bias=0.1)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    if layout is not None:
        set_log_a(ours, layout)
    return ours, theirs


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("masked", ["padding", "causal", "nothing"])
def test_module_equals_the_definition(training, masked):
    torch.manual_seed(0)
    module = HeadAttention(8, 4, (0, 2, 3), HeadGates(3, init=0.2), self_attention=True).double()
    module.out_proj.bias.data.normal_()
    module.train(training)
    x = torch.randn(5, 2, 8, dtype=torch.float64)
    padding = torch.tensor([[0, 0, 0, 0, 0], [1, 1, 0, 0, 0]]).bool() if masked == "padding" else None
    future = torch.full((5, 5), float("-inf"), dtype=torch.float64).triu(1)
    with fixed_noise(module.modules(), seed=4):
        gate = module.gates()
        out, weights = module(
            x,
            x,
            x,
            key_padding_mask=padding,
            attn_mask=future if masked == "causal" else None,
            need_weights=False,
        )
    expected = gated_attention(module, x, x, gate, padding, masked == "causal")
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=1e-9)
    assert weights is None


def test_the_same_seed_builds_the_same_weights_as_stock():
    ours, theirs = gated(gate_types="none"), stock()
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name


@pytest.mark.parametrize("options", [{}, PRE_NORM, {"share_all_embeddings": True}])
def test_a_stock_checkpoint_gets_open_gates_and_computes_the_same(options):
    ours, theirs = pair(**options)
    src, lengths, prev, _ = batch(LENGTHS)
    torch.testing.assert_close(
        logits(ours, src, lengths, prev), logits(theirs, src, lengths, prev), atol=1e-5, rtol=1e-5
    )
    for size in (1, 5):
        assert same_translations(beam(ours, src, lengths, size), beam(theirs, src, lengths, size))


def test_gradients_equal_stock_without_gates():
    ours, theirs = pair(gate_types="none")
    src, lengths, prev, target = batch(LENGTHS)
    for model in (ours, theirs):
        model.train()
        out = model(src, lengths, prev)[0]
        torch.nn.functional.cross_entropy(out.flatten(0, 1), target.flatten()).backward()
    mine = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(mine[name].grad, parameter.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("layout", [SOME, *ONE_EMPTY.values()], ids=["some", *ONE_EMPTY])
def test_every_path_agrees_when_gates_are_closed(layout):
    """Whole sequences, incremental steps, batches, single sentences, and beams of folded gates."""
    model, _ = pair(layout=layout)
    assert open_layout(model) == layout
    src, lengths, prev, _ = batch(LENGTHS)
    whole = logits(model, src, lengths, prev)
    steps = step_by_step(model, src, lengths, prev)
    real = prev.ne(1)
    torch.testing.assert_close(whole[real], steps[real], atol=1e-5, rtol=1e-5)
    for i, (s, t) in enumerate(LENGTHS):
        alone = logits(model, src[i : i + 1, -s:], lengths[i : i + 1], prev[i : i + 1, :t])
        torch.testing.assert_close(alone[0], whole[i, :t], atol=1e-5, rtol=1e-5)
    before = beam(model, src, lengths)
    fast = copy.deepcopy(model)
    fast.make_generation_fast_()
    assert existing_layout(fast) == layout
    assert same_translations(before, beam(fast, src, lengths))
    torch.testing.assert_close(logits(fast, src, lengths, prev), whole, atol=1e-5, rtol=1e-5)
    for i, (s, _) in enumerate(LENGTHS):
        alone = beam(fast, src[i : i + 1, -s:], lengths[i : i + 1])
        assert same_translations(alone, before[i : i + 1])


def test_a_closed_gate_changes_logits_and_open_gates_do_not():
    ours, theirs = pair()
    src, lengths, prev, _ = batch(LENGTHS)
    stock_logits = logits(theirs, src, lengths, prev)
    every = existing_layout(ours)
    for head in every:
        set_log_a(ours, every.without([head]))
        assert (logits(ours, src, lengths, prev) - stock_logits).abs().max() > 1e-3, head


def test_beam_size_may_change_between_searches():
    model, theirs = pair()
    src, lengths, _, _ = batch(LENGTHS)
    for size in (5, 1, 3, 5):
        assert same_translations(beam(model, src, lengths, size), beam(theirs, src, lengths, size))


@pytest.mark.parametrize("kind", ["gated", "stock"])
def test_recorded_maps_are_the_attention(kind):
    ours, theirs = pair(layout=SOME)
    model = ours if kind == "gated" else theirs
    src, lengths, prev, _ = batch(LENGTHS)
    plain, extra = model(src, lengths, prev)
    with record_attention(model) as maps:
        recorded = logits(model, src, lengths, prev)
    torch.testing.assert_close(plain, recorded, atol=1e-5, rtol=1e-5)
    sizes = {"enc_self": (7, 7), "dec_self": (6, 6), "dec_enc": (6, 7)}
    for key in ATTENTION_TYPES:
        for layer in range(2):
            weights = maps[key][layer]
            assert weights.shape == (4, 4, *sizes[key]) and weights.dtype == torch.float32
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert maps["enc_self"][0][src.eq(1)[:, None, None].expand(-1, 4, 7, -1)].abs().max() == 0
    assert maps["dec_self"][0].triu(1).abs().max() == 0
    torch.testing.assert_close(maps["dec_enc"][1].mean(1), extra["attn"][0], atol=1e-5, rtol=1e-5)
    assert all(getattr(m, "recorder", None) is None for m in model.modules())


def test_recording_twice_and_in_layers_without_heads():
    model = gated(head_layout=ONE_EMPTY["dec_enc"].to_json())
    src, lengths, prev, _ = batch(LENGTHS)
    with record_attention(model) as maps:
        logits(model, src, lengths, prev)
    assert maps["dec_enc"][1].shape == (4, 0, 6, 7)
    with record_attention(model) as maps:
        with pytest.raises(LookupError):
            maps["enc_self"][0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_trains_with_finite_gradients(dtype):
    model = gated(gate_init=0.5).to(dtype).train()
    src, lengths, prev, target = batch(LENGTHS)
    out = model(src, lengths, prev)[0].float()
    torch.nn.functional.cross_entropy(out.flatten(0, 1), target.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
    grads = [p.grad for n, p in model.named_parameters() if n.endswith("scaled_log_a")]
    assert sum(float(g.abs().sum()) for g in grads) > 0


def test_dropping_heads_updates_every_size():
    module = HeadAttention(8, 4, range(4), None, self_attention=True)
    module.keep_heads((1, 3))
    assert module.num_heads == 2 and module.heads == (1, 3) and module.total_heads == 4
    for name in ("q_proj", "k_proj", "v_proj"):
        linear = getattr(module, name)
        assert (linear.out_features, linear.in_features) == tuple(linear.weight.shape) == (4, 8)
        assert linear.bias.shape == (4,)
    assert (module.out_proj.out_features, module.out_proj.in_features) == (8, 4)
    module.keep_heads((3,))
    assert module.q_proj.weight.shape == (2, 8)


def test_gates_of_a_model_sit_where_the_options_say():
    model = gated(gate_types="dec-enc,enc-self")
    modules = attention_modules(model)
    assert [m.gates is not None for t in ATTENTION_TYPES for m in modules[t]] == [
        True,
        True,
        False,
        False,
        True,
        True,
    ]
