"""The objective is L_xent + lambda * sum P(open), however the data are split up."""

import logging
import math
from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.criterions.label_smoothed_cross_entropy_l0 import (
    LabelSmoothedCrossEntropyL0Criterion,
)
from fairseq_headprune.units import gates, target
from fairseq_headprune.units.gates import fixed_noise
from tests.helpers.double_precision import softmax_in_double
from tests.helpers.our_models import gated, stock, task
from tests.helpers.small_models import batch

LENGTHS = [(5, 6), (7, 4), (3, 5), (6, 6), (4, 3), (8, 7), (5, 5), (6, 4)]


def criterion(sentence_avg=False, **options):
    return LabelSmoothedCrossEntropyL0Criterion(criterion_task(), sentence_avg, 0.1, **options)


def criterion_task():
    return Namespace(target_dictionary=task().target_dictionary)


def samples(groups):
    """One fairseq sample per group of sentence numbers."""
    src, lengths, prev, tgt = batch(LENGTHS)
    for group in groups:
        rows = list(group)
        longest_s = max(LENGTHS[i][0] for i in rows)
        longest_t = max(LENGTHS[i][1] for i in rows)
        target_rows = tgt[rows, :longest_t]
        yield {
            "net_input": {
                "src_tokens": src[rows][:, -longest_s:],
                "src_lengths": lengths[rows],
                "prev_output_tokens": prev[rows, :longest_t],
            },
            "target": target_rows,
            "ntokens": int(target_rows.ne(1).sum()),
        }


def gate_gradients(groups, sentence_avg=False, weight=0.02, **options):
    """Gradients as fairseq's trainer makes them: summed over batches, divided by sample sizes."""
    model = gated(gate_init=0.4).double().train()
    loss_of = criterion(sentence_avg, l0_lambda=weight, **options)
    total = 0
    with fixed_noise(model.modules(), seed=5), softmax_in_double():
        for sample in samples(groups):
            loss, size, _ = loss_of(model, sample)
            loss.backward()
            total += size
    return torch.cat(
        [p.grad / total for n, p in sorted(model.named_parameters()) if n.endswith("scaled_log_a")]
    )


def test_gradient_is_the_same_for_any_split_into_batches():
    whole = gate_gradients([range(8)])
    assert whole.abs().max() > 1e-3
    for groups in ([range(0, 4), range(4, 8)], [[0], [1, 2, 3], [4, 5], [6, 7]]):
        torch.testing.assert_close(gate_gradients(groups), whole, atol=1e-10, rtol=1e-8)


def test_sentence_average_scales_the_objective_and_keeps_its_balance():
    per_token = gate_gradients([range(8)])
    per_sentence = gate_gradients([range(0, 3), range(3, 8)], sentence_avg=True)
    tokens = sum(t for _, t in LENGTHS)
    torch.testing.assert_close(per_sentence * 8 / tokens, per_token, atol=1e-10, rtol=1e-8)


def test_gradient_is_that_of_the_formula():
    model = gated(gate_init=0.4).double().train()
    with fixed_noise(model.modules(), seed=5):
        (sample,) = samples([range(8)])
        out = model(**sample["net_input"])[0]
        flat = sample["target"].flatten()
        logp = torch.log_softmax(out.flatten(0, 1), -1)[flat.ne(1)]
        nll = -logp.gather(1, flat[flat.ne(1)][:, None]).mean()
        smooth = -logp.sum(1).mean()
        spread = 0.1 / (logp.size(1) - 1)
        xent = (1 - 0.1 - spread) * nll + spread * smooth
        names = [n for n, _ in sorted(model.named_parameters()) if n.endswith("scaled_log_a")]
        modules = dict(model.named_modules())
        p_open = sum(gates.p_open(modules[n.rsplit(".", 1)[0]].log_a).sum() for n in names)
        (xent + 0.02 * p_open).backward()
    grads = torch.cat([dict(model.named_parameters())[n].grad for n in names])
    torch.testing.assert_close(grads, gate_gradients([range(8)]), atol=1e-10, rtol=1e-8)


def test_validation_loss_is_the_stock_criterions():
    model = gated().eval()
    (sample,) = samples([range(8)])
    loss, _, log = criterion(l0_lambda=0.5)(model, sample)
    stock_loss, _, _ = LabelSmoothedCrossEntropyCriterion(criterion_task(), False, 0.1)(model, sample)
    assert loss.item() == log["loss"].item() == pytest.approx(stock_loss.item(), rel=1e-6)
    assert math.isclose(log["l0_penalty"].item() / sample["ntokens"], 0.5 * 24 * 0.942, rel_tol=1e-2)


def test_the_weight_is_ramped_by_updates():
    model, loss_of = gated(), criterion(l0_lambda=1.0, l0_warmup_updates=10)
    ramps = []
    for update in (0, 5, 10, 50):
        model.set_num_updates(update)
        ramps.append(loss_of.ramp(model))
    assert ramps == [0.0, 0.5, 1.0, 1.0]


def test_a_model_without_gates_trains_and_is_warned_about(caplog):
    with caplog.at_level(logging.WARNING):
        (sample,) = samples([range(8)])
        loss, _, log = criterion(l0_lambda=0.1)(stock().train(), sample)
    assert "has no gates" in caplog.text and "l0_penalty" not in log and torch.isfinite(loss)


def test_gates_that_cost_nothing_are_warned_about_once(caplog):
    (sample,) = samples([range(8)])
    for options, model, times in (
        ({}, gated().train(), 1),
        ({"l0_lambda": 0.1}, gated().train(), 0),
        ({"l0_target_heads": "3"}, gated().train(), 0),
        ({}, gated().eval(), 0),  # fairseq-validate
        ({}, stock().train(), 0),  # a control
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            loss = criterion(**options)
            for _ in range(2):
                loss(model, sample)
        assert caplog.text.count("nothing will be pruned") == times, options


@pytest.mark.parametrize(
    "options, message",
    [
        ({"l0_lambda": -1.0}, "--l0-lambda"),
        ({"l0_lambda": float("nan")}, "--l0-lambda"),
        ({"l0_warmup_updates": -1}, "--l0-warmup-updates"),
        ({"l0_lambda": 0.1, "l0_target_heads": "3"}, "not both"),
        ({"l0_target_heads": "many"}, "many"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        criterion(**options)


def test_a_target_beyond_the_gates_is_refused_at_the_first_batch():
    (sample,) = samples([range(8)])
    with pytest.raises(UserError, match="--l0-target-heads asks for 9 heads of type enc-self"):
        criterion(l0_target_heads="enc-self=9")(gated().train(), sample)


@pytest.mark.parametrize("wanted", ["5", "enc-self=1,dec-enc=3"])
def test_training_to_a_target_leaves_exactly_that_many_heads(wanted):
    from fairseq_headprune.nn.projections import open_layout

    model = gated(gate_lr_scale=10.0)
    loss_of = criterion(l0_target_heads=wanted, l0_warmup_updates=5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    (sample,) = samples([range(8)])
    for update in range(60):
        model.train()
        model.set_num_updates(update)
        loss, size, _ = loss_of(model, sample)
        optimizer.zero_grad()
        (loss / size).backward()
        optimizer.step()
    loss_of(model.eval(), sample)  # fairseq validates before it saves
    counts = open_layout(model).counts()
    asked = target.parse_target(wanted)
    if "total" in asked:
        assert sum(counts.values()) == asked["total"]
    else:
        assert {t: counts[t] for t in asked} == asked and counts["dec_self"] == 8


def test_logged_scalars_are_sums_that_reduce_to_counts():
    from fairseq.logging import metrics

    model = gated(gate_init=5.0)
    loss_of = criterion(l0_lambda=0.01)
    logs = [loss_of(model, s)[2] for s in samples([range(0, 3), range(3, 8)])]
    assert loss_of.logging_outputs_can_be_summed()
    summed = [{k: sum(log[k] for log in logs) for k in logs[0]}]
    with metrics.aggregate(new_root=True) as agg:
        LabelSmoothedCrossEntropyL0Criterion.reduce_metrics(summed)
    values = agg.get_smoothed_values()
    assert values["enc_self_open"] == 8 and values["dec_enc_closed"] == 0
    assert math.isclose(values["expected_heads"], 24 * gates.p_open(torch.tensor(5.0)), rel_tol=1e-2)
    bits = values["l0_penalty"] / math.log(2)
    assert math.isclose(values["objective"], values["loss"] + bits, abs_tol=5e-3)


def test_gates_keep_their_rate_under_fairseqs_half_precision_optimizer():
    """On the CPU fairseq has the memory-efficient one only; the flat one is checked on a GPU."""
    import fairseq.tasks.translation  # noqa: F401  (registers the optimizers)
    from fairseq.optim.fp16_optimizer import MemoryEfficientFP16Optimizer
    from omegaconf import OmegaConf

    cfg = OmegaConf.create(
        {
            "common": {
                "fp16": True,
                "bf16": False,
                "fp16_init_scale": 4,
                "fp16_scale_window": 100,
                "fp16_scale_tolerance": 0.0,
                "min_loss_scale": 1e-4,
                "threshold_loss_scale": None,
                "on_cpu_convert_precision": False,
                "fp16_adam_stats": False,
                "tpu": False,
            },
            "distributed_training": {"distributed_world_size": 1},
            "optimization": {"update_freq": [1], "lr": [0.01]},
            "optimizer": {
                "_name": "adam",
                "lr": [0.01],
                "adam_betas": "(0.9, 0.98)",
                "adam_eps": 1e-8,
                "weight_decay": 0.0,
                "use_old_adam": True,
                "fp16_adam_stats": False,
                "tpu": False,
            },
        }
    )
    model = gated(gate_lr_scale=20.0).half().train()
    optimizer = MemoryEfficientFP16Optimizer.build_optimizer(cfg, list(model.parameters()))
    (sample,) = samples([range(8)])
    loss, size, _ = criterion(l0_lambda=0.5)(model, sample)
    optimizer.backward(loss / size)
    optimizer.step()
    gate = model.encoder.layers[0].self_attn.gates
    assert gate.log_a.dtype == torch.float32
    # Adam's first step is the rate itself: 0.01 * 20
    torch.testing.assert_close(gate.log_a, torch.full((4,), 2.0 - 0.2), atol=5e-3, rtol=0)
