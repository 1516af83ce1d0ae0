"""What head_relevance promises whatever the rule: independence, conservation, untouched models."""

import copy
import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.lrp import RULES, head_relevance, normalise
from fairseq_headprune.lrp.epsilon import Epsilon
from fairseq_headprune.units.layout import ATTENTION_TYPES
from tests.helpers.small_models import batch, small_transformer

PRE = dict(encoder_normalize_before=True, decoder_normalize_before=True)
LENGTHS = ((6, 4), (2, 5), (9, 1), (4, 7))
WIDE = dict(rtol=1e-6, atol=1e-9)


@pytest.fixture(scope="module")
def model():
    return small_transformer(**PRE)


def same(ours, theirs, **near):
    for key in ATTENTION_TYPES:
        torch.testing.assert_close(ours[key], theirs[key], **near)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=12, deadline=None)
@given(st.permutations(range(len(LENGTHS))), st.booleans(), st.sampled_from([60, 900, 5000, None]))
def test_batching_padding_order_and_chunks_do_not_matter(model, rule, order, left, chunk_size):
    src, lengths, prev, _ = batch(LENGTHS)
    single = [
        head_relevance(
            model, src[b : b + 1, -s:], None, prev[b : b + 1, :t], rule, tokens=True, dtype=torch.float64
        )
        for b, (s, t) in enumerate(LENGTHS)
    ]
    src, lengths, prev, _ = batch(LENGTHS, left_pad_source=left)
    order = list(order)
    together = head_relevance(
        model, src[order], lengths[order], prev[order], rule, tokens=True, chunk_size=chunk_size,
        dtype=torch.float64,
    )  # fmt: skip
    for place, b in enumerate(order):
        s, t = LENGTHS[b]
        for key in ATTENTION_TYPES:
            ours = together[key][:, place]
            torch.testing.assert_close(ours[:t], single[b][key][:, 0], **WIDE)
            assert (ours[t:] == 0).all()
        source = together.source[:t, place]
        source, padding = (source[:, -s:], source[:, :-s]) if left else (source[:, :s], source[:, s:])
        torch.testing.assert_close(source, single[b].source[:, 0], **WIDE)
        assert (padding == 0).all()
        target = together.target[:, place]
        torch.testing.assert_close(target[:t, :t], single[b].target[:, 0], **WIDE)
        assert (target[t:] == 0).all() and (target[:, t:] == 0).all()
        assert together.valid[:, place].tolist() == [step < t for step in range(len(together.valid))]


@pytest.mark.parametrize("rule", RULES)
def test_a_start_sees_no_later_token(model, rule):
    """Steps before s are those of the sentence cut after step s."""
    src, lengths, prev, _ = batch([(5, 6)])
    exact = dict(tokens=True, dtype=torch.float64)
    whole = head_relevance(model, src, lengths, prev, rule, **exact)
    short = head_relevance(model, src, lengths, prev[:, :3], rule, **exact)
    for key in ATTENTION_TYPES:
        torch.testing.assert_close(whole[key][:3], short[key], **WIDE)
    assert (whole.target[:, 0].triu(1) == 0).all()


def test_starts(model):
    src, lengths, prev, target = batch(LENGTHS)
    top = head_relevance(model, src, lengths, prev)
    with torch.no_grad():
        logits, _ = model(src, lengths, prev)
    real = prev.ne(1)
    assert top.start[real].equal(logits.argmax(-1)[real]) and (top.start[~real] == 1).all()
    same(head_relevance(model, src, lengths, prev, start=top.start), top, rtol=0, atol=0)
    emitted = head_relevance(model, src, lengths, prev, start=target)
    assert emitted.start.equal(target)
    differs = (target != top.start) & real
    changed = (emitted["dec_enc"] != top["dec_enc"]).flatten(2).any(-1).T
    assert differs.any() and changed.equal(differs)


def test_alpha_beta_nearly_conserves_and_is_positive(model):
    src, lengths, prev, _ = batch(LENGTHS)
    for rule in ("alpha-beta", "z-plus"):
        result = head_relevance(model, src, lengths, prev, rule, tokens=True)
        assert all((result[key] >= 0).all() for key in result)
        assert result.residual[result.valid].abs().max() < 5e-3
        total = result.source.sum(-1) + result.target.sum(-1) + result.residual
        torch.testing.assert_close(total, result.valid.double())


@pytest.mark.parametrize("options", [{}, PRE])
def test_epsilon_conserves_without_biases(options):
    """A sum of ratios is 1 but for the stabiliser; biases keep what is due to them."""
    src, lengths, prev, _ = batch(LENGTHS)
    bare = small_transformer(bias=0.0, **options)
    residuals = []
    for stabiliser in (1e-9, 1e-12):
        result = head_relevance(bare, src, lengths, prev, "epsilon", tokens=True, stabiliser=stabiliser)
        size = result.source.abs().sum(-1) + result.target.abs().sum(-1)
        residuals.append((result.residual / size.clamp_min(1))[result.valid].abs().max())
    assert residuals[0] < 1e-4 and residuals[1] < 1e-8
    biased = head_relevance(
        small_transformer(**options), src, lengths, prev, "epsilon", tokens=True, stabiliser=1e-9
    )
    assert biased.residual[biased.valid].abs().max() > 1e-2


@pytest.mark.parametrize("attention", ["full", "values"])
@pytest.mark.parametrize("options", [{}, PRE])
def test_appendix_a2_conserves_with_biases(options, attention):
    """Shares of a sum and of a product add up to 1, and biases get none."""
    src, lengths, prev, _ = batch(LENGTHS)
    model = small_transformer(**options)
    worst = []
    for stabiliser in (1e-9, 1e-12):
        result = head_relevance(
            model, src, lengths, prev, "appendix-a2", attention=attention, tokens=True, stabiliser=stabiliser
        )
        size = result.source.abs().sum(-1) + result.target.abs().sum(-1)
        worst.append((result.residual / size.clamp_min(1))[result.valid].abs().max())
    assert worst[0] < 1e-4 and worst[1] < 1e-6


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("options", [{}, PRE])
def test_six_layers_stay_finite(rule, options):
    deep = small_transformer(encoder_layers=6, decoder_layers=6, **options)
    src, lengths, prev, _ = batch([(8, 6), (3, 6)])
    result = head_relevance(deep, src, lengths, prev, rule, tokens=True)
    assert not result.nonfinite.any()
    for key in ATTENTION_TYPES:
        assert result[key].isfinite().all()
        share = normalise(result[key])[result.valid]
        torch.testing.assert_close(share.abs().sum(-1), torch.ones_like(share[..., 0]))
        if rule not in ("epsilon", "appendix-a2"):
            assert result[key].sum(-1).max() <= 1 + 1e-9


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_the_model_is_untouched_and_its_mode_is_ignored(rule, training):
    model = small_transformer(
        dropout=0.3, attention_dropout=0.3, encoder_layerdrop=0.5, decoder_layerdrop=0.5, **PRE
    )
    src, lengths, prev, _ = batch(LENGTHS)
    expected = head_relevance(model, src, lengths, prev, rule)
    model.train(training)
    for number, parameter in enumerate(model.parameters()):
        parameter.requires_grad = number % 2 == 0
    before = copy.deepcopy(model)
    state = torch.random.get_rng_state()
    same(head_relevance(model, src, lengths, prev, rule), expected, rtol=0, atol=0)
    assert torch.random.get_rng_state().equal(state)
    for (name, old), new in zip(before.named_parameters(), model.parameters()):
        assert old.equal(new) and new.grad is None and old.requires_grad == new.requires_grad, name
    assert [m.training for m in before.modules()] == [m.training for m in model.modules()]


@pytest.mark.parametrize("rule", RULES)
def test_default_precision(model, rule):
    """What is formed in float32 by default costs no more than its rounding."""
    src, lengths, prev, _ = batch(LENGTHS)
    exact = head_relevance(model, src, lengths, prev, rule, dtype=torch.float64)
    default = head_relevance(model, src, lengths, prev, rule)
    assert default["dec_enc"].dtype == torch.float64
    for key in ATTENTION_TYPES:
        torch.testing.assert_close(default[key], exact[key], rtol=2e-5, atol=1e-8)


def test_half_precision_models_are_computed_in_double(model):
    src, lengths, prev, _ = batch(LENGTHS)
    half = copy.deepcopy(model).half()
    result = head_relevance(half, src, lengths, prev)
    assert result["enc_self"].dtype == torch.float64
    # the same numbers, rounded to half precision, in a model that fairseq computes in double
    same(result, head_relevance(half.double(), src, lengths, prev), rtol=1e-3, atol=1e-4)


def test_nonfinite_relevance_is_marked_and_logged(model, caplog):
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.decoder.embed_tokens.weight[7] = float("inf")
    src, lengths, prev, _ = batch([(4, 4), (4, 4)])
    prev[:, 1:] = 5
    prev[1, 2] = 7
    with caplog.at_level(logging.WARNING):
        result = head_relevance(broken, src, lengths, prev, start=torch.full_like(prev, 6))
    # earlier steps of the same sentence may be marked too: a weight of 0 times infinity is not 0
    assert not result.nonfinite[:, 0].any() and result.nonfinite[2:, 1].all()
    marked = int(result.nonfinite.sum())
    assert f"relevance of {marked} of 8 generation steps is not finite" in caplog.text
    clean = head_relevance(model, src[:1], lengths[:1], prev[:1], start=torch.full_like(prev[:1], 6))
    torch.testing.assert_close(result["dec_enc"][:, 0], clean["dec_enc"][:, 0])


class Largest(TorchDispatchMode):
    """Remembers the most numbers that any tensor held."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.numbers = max(self.numbers, result.numel())
        return result


@pytest.mark.parametrize("rule", RULES)
def test_chunk_size_bounds_the_largest_tensor(rule):
    # without positions, whose table is larger than anything here
    model = small_transformer(no_token_positional_embeddings=True, **PRE)
    src, lengths, prev, _ = batch([(30, 20), (12, 33), (3, 4), (17, 17)])
    widths = 3 * 16, 4 * 33  # query, key and value together; heads times keys
    for chunk_size in (2 * 33 * max(widths), 20_000, 40_000):
        with Largest() as largest:
            head_relevance(model, src, lengths, prev, rule, tokens=True, chunk_size=chunk_size)
        assert largest.numbers <= chunk_size
    with Largest() as largest:
        head_relevance(model, src, lengths, prev, rule)
    assert largest.numbers > 40_000


def test_result_is_a_mapping_in_the_standard_order(model):
    src, lengths, prev, _ = batch(LENGTHS)
    result = head_relevance(model, src, lengths, prev)
    assert tuple(result) == ATTENTION_TYPES and len(result) == 3
    assert all(value.shape == (7, 4, 2, 4) for value in result.values())
    assert result.source is None and result.target is None and result.residual is None


def test_bad_arguments_are_refused_by_name(model):
    src, lengths, prev, _ = batch(LENGTHS)

    def refusal(**options):
        with pytest.raises(UserError) as error:
            head_relevance(model, src, lengths, prev, **options)
        return str(error.value)

    assert refusal(rule="gamma").startswith("unknown relevance rule 'gamma'")
    assert "unknown start 'best'" in refusal(start="best")
    assert "[4, 6]" in refusal(start=prev[:, 1:]) and "[4, 7]" in refusal(start=prev[:, 1:])
    assert "vocabulary of 16" in refusal(start=torch.full_like(prev, 16))
    assert "unknown attention mode 'keys'" in refusal(attention="keys")
    assert "constants" in refusal(rule="epsilon", attention="full")
    assert "no stabiliser: leave the stabiliser out or use rule epsilon or appendix-a2" in refusal(
        stabiliser=0.1
    )
    for wrong in (-1.0, float("nan"), float("inf")):
        assert f"of at least 0, not {wrong}" in refusal(rule="epsilon", stabiliser=wrong)
    assert "chunk size 0" in refusal(chunk_size=0)
    assert RULES["epsilon"] is Epsilon
