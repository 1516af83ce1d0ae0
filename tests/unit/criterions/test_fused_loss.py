"""The fused loss against fairseq's own criterion: loss, logging and every gradient."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    label_smoothed_nll_loss,
)

from fairseq_headprune.criterions import label_smoothed_cross_entropy_l0 as ours
from fairseq_headprune.nn import fused_cross_entropy as fused
from tests.helpers.our_models import stock
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


@pytest.mark.parametrize("options", [{}, {"report_accuracy": True, "ignore_prefix_size": 1}])
@pytest.mark.parametrize("training", [True, False])
def test_criterion_logs_and_teaches_as_stock(options, training, monkeypatch):
    monkeypatch.setitem(fused.CHUNK, "cpu", 64)
    sample = next(samples([range(8)]))
    results = []
    for loss_of in (
        LabelSmoothedCrossEntropyCriterion(criterion_task(), False, 0.1, **options),
        criterion(**options),
    ):
        model = stock().train(training)
        torch.manual_seed(3)
        loss, size, logged = loss_of(model, sample)
        loss.backward()
        results.append((size, logged, {n: p.grad for n, p in model.named_parameters()}))
    (size, logged, grads), (our_size, our_logged, our_grads) = results
    assert ours.can_fuse(model) and our_size == size
    assert our_logged.keys() == logged.keys()
    for key in logged:
        assert float(our_logged[key]) == pytest.approx(float(logged[key]), rel=1e-6), key
    for name in grads:
        torch.testing.assert_close(our_grads[name], grads[name], rtol=1e-4, atol=1e-5)


def test_a_half_precision_gradient_below_fp16_is_kept_for_the_loss_scale():
    x = torch.zeros(1, 2, dtype=torch.float16, requires_grad=True)
    w = torch.full((4, 2), 2.0**-24, dtype=torch.float16)
    w[0] = 0
    loss, _, _ = fused.fused_cross_entropy(x, w, None, torch.tensor([0]), 0.0, PAD)
    (loss * 1024).backward()
    torch.testing.assert_close(x.grad.float(), torch.full((1, 2), 0.75 * 2.0**-14), rtol=1e-3, atol=0)


def test_other_output_layers_keep_the_stock_path():
    model = stock()
    assert ours.can_fuse(model)
    model.decoder.output_projection.register_forward_hook(lambda *_: None)
    assert not ours.can_fuse(model)
    assert not ours.can_fuse(torch.nn.DataParallel(stock()))
