"""The fused loss against fairseq's own criterion: loss, logging and every gradient."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    label_smoothed_nll_loss,
)
from fairseq.models.transformer import TransformerDecoderBase

from fairseq_headprune.criterions import label_smoothed_cross_entropy_l0 as ours
from fairseq_headprune.nn import fused_cross_entropy as fused
from tests.helpers.our_models import gated, stock
from tests.unit.criterions.test_criterion import criterion, criterion_task, samples

PAD = 1


def both(dtype, bias, train_weight, scale):
    torch.manual_seed(1)
    values = [torch.randn(37, 16), torch.randn(50, 16) * 0.3, torch.randn(50) if bias else None]
    target = torch.randint(0, 50, (37,))
    target[::5] = PAD
    results = []
    for way in ("stock", "fused"):
        x, w, b = (None if v is None else v.to(dtype).requires_grad_() for v in values)
        w.requires_grad_(train_weight)
        if way == "stock":
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            lprobs = torch.log_softmax(torch.nn.functional.linear(x, w, b), -1, dtype=wide)
            loss, nll = label_smoothed_nll_loss(lprobs, target, 0.1, ignore_index=PAD)
        else:
            loss, nll, _ = fused.fused_cross_entropy(x, w, b, target, 0.1, PAD)
        (loss * scale).backward()
        results.append([loss.detach(), nll.detach()] + [t.grad for t in (x, w, b) if t is not None])
    return results


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("train_weight", [False, True])
@pytest.mark.parametrize(
    "dtype, rtol, atol",
    [
        (torch.float64, 1e-10, 1e-10),
        (torch.float32, 1e-5, 1e-5),
        (torch.bfloat16, 3e-2, 3e-1),
        (torch.float16, 5e-3, 3e-2),
    ],
)
def test_sums_and_gradients_are_the_reference(dtype, rtol, atol, train_weight, bias, monkeypatch):
    monkeypatch.setitem(fused.CHUNK, "cpu", 50 * 7)  # several chunks, the last one shorter
    scale = 8.0
    for want, got in zip(*both(dtype, bias, train_weight, scale)):
        if want is None:
            assert got is None
        else:
            assert want.dtype == got.dtype
            torch.testing.assert_close(got, want, rtol=rtol, atol=atol)


MODELS = {
    "stock": stock,
    "gated": gated,
    "removed": lambda: gated(gate_types="none", head_layout=LAYOUT),
    "output bias": lambda: gated(gate_types="none", output_bias=True, no_unk=True),
    "ssru": lambda: gated(gate_types="none", decoder_self="ssru"),
    "tied": lambda: gated(share_all_embeddings=True),
}
LAYOUT = '{"enc_self": [[0], []], "dec_self": [[1], [2]], "dec_enc": [[0, 1], [3]]}'


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("options", [{}, {"report_accuracy": True, "ignore_prefix_size": 1}])
@pytest.mark.parametrize("training", [True, False])
def test_criterion_logs_and_teaches_as_stock(options, training, make, monkeypatch):
    monkeypatch.setitem(fused.CHUNK, "cpu", 64)
    sample = next(samples([range(8)]))
    results = []
    for loss_of in (
        LabelSmoothedCrossEntropyCriterion(criterion_task(), False, 0.1, **options),
        criterion(**options),
    ):
        model = make().train(training)
        torch.manual_seed(3)  # for the noise of gates
        loss, size, logged = loss_of(model, sample)
        loss.backward()
        results.append((size, logged, {n: p.grad for n, p in model.named_parameters()}))
    (size, logged, grads), (our_size, our_logged, our_grads) = results
    assert ours.can_fuse(model) and our_size == size
    assert our_logged.keys() >= logged.keys()  # ours counts gates too
    for key in logged:
        assert float(our_logged[key]) == pytest.approx(float(logged[key]), rel=1e-6), key
    for name in grads:
        assert (grads[name] is None) == (our_grads[name] is None), name
        if grads[name] is not None:
            torch.testing.assert_close(our_grads[name], grads[name], rtol=1e-4, atol=1e-5)


def test_unknown_words_of_references_cost_what_the_model_says():
    """--no-unk is for searches: stock's loss in validation is infinite with it."""
    sample = next(samples([range(8)]))
    with torch.no_grad():
        (loss, *_), (want, *_) = (
            criterion()(gated(gate_types="none", no_unk=n), sample) for n in (True, False)
        )
    assert torch.equal(loss, want) and loss.isfinite()


def test_a_matrix_stored_for_generation_keeps_the_stock_path():
    model = gated(gate_types="none")
    assert ours.can_fuse(model)
    model.make_generation_fast_()
    assert not ours.can_fuse(model)


def test_a_batch_without_targets_has_a_gradient_of_zero():
    x, w, b = (torch.ones(*shape, requires_grad=True) for shape in ((3, 2), (5, 2), (5,)))
    loss, nll, correct = fused.fused_cross_entropy(x, w, b, torch.full((3,), PAD), 0.1, PAD)
    loss.backward()
    assert loss == nll == correct == 0 and all((t.grad == 0).all() for t in (x, w, b))


def test_the_gradient_is_given_once():
    x, w = torch.ones(3, 2, requires_grad=True), torch.ones(5, 2)
    loss, _, _ = fused.fused_cross_entropy(x, w, None, torch.full((3,), 4), 0.1, PAD)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="gives its gradient once"):
        loss.backward()


def test_a_half_precision_gradient_below_fp16_is_kept_for_the_loss_scale():
    x = torch.zeros(1, 2, dtype=torch.float16, requires_grad=True)
    w = torch.full((4, 2), 2.0**-24, dtype=torch.float16)
    w[0] = 0
    loss, _, _ = fused.fused_cross_entropy(x, w, None, torch.tensor([0]), 0.0, PAD)
    (loss * 1024).backward()
    torch.testing.assert_close(x.grad.float(), torch.full((1, 2), 0.75 * 2.0**-14), rtol=1e-3, atol=0)


class OtherLinear(torch.nn.Linear):
    """What quantisation noise and the like put in the place of a linear layer."""


class OtherOutput(TransformerDecoderBase):
    """A decoder that does something more with its logits."""

    def output_layer(self, features):
        return super().output_layer(features) / 2


def with_other_output(model):
    model.decoder.__class__ = type("Other", (OtherOutput, type(model.decoder)), {})


def with_other_linear(model):
    model.decoder.output_projection.__class__ = OtherLinear


def with_a_hook(model):
    model.decoder.output_projection.register_forward_hook(lambda *_: None)


def with_other_probabilities(model):
    class Other(type(model)):
        def get_normalized_probs(self, net_output, log_probs, sample=None):
            return super().get_normalized_probs((net_output[0] / 2, *net_output[1:]), log_probs, sample)

    model.__class__ = Other


CANNOT = [with_other_output, with_other_linear, with_a_hook, with_other_probabilities]


def loss_and_gradients(loss_of, model, **options):
    loss, _, logged = loss_of(model, next(samples([range(8)])), **options)
    loss.sum().backward()
    return loss.detach(), logged, {n: p.grad for n, p in model.named_parameters()}


def never(*_):
    raise AssertionError("the fused loss was used")


def same_as_stock(make, monkeypatch, **options):
    """Our criterion without the fused loss, to the last bit stock's."""
    monkeypatch.setattr(ours, "fused_cross_entropy", never)
    loss, logged, grads = loss_and_gradients(criterion(), make(), **options)
    stocks = LabelSmoothedCrossEntropyCriterion(criterion_task(), False, 0.1)
    want, want_logged, want_grads = loss_and_gradients(stocks, make(), **options)
    assert torch.equal(loss, want) and logged.keys() == want_logged.keys()
    for name, grad in want_grads.items():
        assert grads[name] is None if grad is None else torch.equal(grads[name], grad), name


@pytest.mark.parametrize("change", CANNOT)
def test_what_the_fused_loss_cannot_do_keeps_the_stock_path(change, monkeypatch):
    def make():
        model = stock().train()
        change(model)
        return model

    assert not ours.can_fuse(make())
    same_as_stock(make, monkeypatch)


def test_adaptive_softmax_keeps_the_stock_path(monkeypatch):
    """In validation: fairseq cannot take the gradient of this loss (it has --criterion adaptive_loss)."""
    monkeypatch.setattr(ours, "fused_cross_entropy", never)
    model = stock(adaptive_softmax_cutoff="4,8")
    stocks = LabelSmoothedCrossEntropyCriterion(criterion_task(), False, 0.1)
    with torch.no_grad():
        (loss, *_), (want, *_) = (f(model, next(samples([range(8)]))) for f in (criterion(), stocks))
    assert not ours.can_fuse(model) and torch.equal(loss, want)


def test_losses_per_token_keep_the_stock_path(monkeypatch):
    same_as_stock(lambda: stock().train(), monkeypatch, reduce=False)


def test_autocast_keeps_the_stock_path(monkeypatch):
    """--amp: bf16 where the processor is the device, too."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not ours.can_fuse(stock())
        same_as_stock(lambda: stock().train(), monkeypatch)
    assert ours.can_fuse(stock())


def test_wrapped_and_other_models_keep_the_stock_path():
    assert not ours.can_fuse(torch.nn.DataParallel(stock()))
    assert not ours.can_fuse(torch.nn.Linear(2, 2))


def test_bf16_models_are_as_near_to_float32_as_with_stock():
    """--bf16: weights and features are bf16; sums and gradients are formed in float32."""
    stocks = LabelSmoothedCrossEntropyCriterion(criterion_task(), False, 0.1)
    exact_loss, _, exact = loss_and_gradients(stocks, stock().bfloat16().float().train())
    far = {}
    for name, loss_of in (("stock", stocks), ("ours", criterion())):
        model = stock().bfloat16().train()
        assert ours.can_fuse(model)
        loss, _, grads = loss_and_gradients(loss_of, model)
        assert all(g.dtype == torch.bfloat16 and g.isfinite().all() for g in grads.values())
        error = sum(float((grads[n].float() - g).square().sum()) for n, g in exact.items())
        size = sum(float(g.square().sum()) for g in exact.values())
        far[name] = (abs(float(loss - exact_loss)) / float(exact_loss), (error / size) ** 0.5)
    assert far["ours"][0] <= far["stock"][0] + 1e-3
    assert far["ours"][1] <= 1.1 * far["stock"][1] < 0.05
