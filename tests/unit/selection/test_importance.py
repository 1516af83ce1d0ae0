"""Scores of heads by other criteria than gates."""

import pytest
import torch

from fairseq_headprune.nn.projections import attention_modules, existing_layout
from fairseq_headprune.recording.maps import record_attention
from fairseq_headprune.selection import importance
from fairseq_headprune.units.layout import Head, HeadLayout
from tests.helpers.double_precision import softmax_in_double
from tests.helpers.small_models import batch, small_transformer

LENGTHS = [(5, 4), (7, 6), (3, 8)]


def as_batch(lengths=LENGTHS, **options):
    source, source_lengths, previous, target = batch(lengths, **options)
    return {
        "src_tokens": source,
        "src_lengths": source_lengths,
        "prev_output_tokens": previous,
        "target": target,
    }


@pytest.fixture(scope="module")
def model():
    return small_transformer()


def loss_with_head_scaled(model, sample, head, scale):
    """Loss per sentence with the columns of W_O that read this head multiplied by ``scale``."""
    module = attention_modules(model)[head.type][head.layer]
    columns = slice(head.head * module.head_dim, (head.head + 1) * module.head_dim)
    weight = module.out_proj.weight
    old = weight.detach().clone()
    with torch.no_grad():
        weight[:, columns] *= scale
        logits = model(sample["src_tokens"], sample["src_lengths"], sample["prev_output_tokens"])[0]
        weight.copy_(old)
    losses = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), sample["target"], ignore_index=1, reduction="none"
    )
    return losses.sum(1)


def test_gradient_importance_is_the_slope_of_the_loss_in_each_head(model):
    model = small_transformer().double()
    sample = as_batch()
    tokens = int(sample["target"].ne(1).sum())
    slow, step = {}, 1e-4
    with softmax_in_double():
        found = importance.gradient_importance(model, [sample])
        for head in existing_layout(model):
            slope = (
                loss_with_head_scaled(model, sample, head, 1 + step)
                - loss_with_head_scaled(model, sample, head, 1 - step)
            ) / (2 * step)
            slow[head] = float(slope.abs().sum()) / tokens
    for head in slow:
        layer = [v for h, v in slow.items() if (h.type, h.layer) == (head.type, head.layer)]
        norm = sum(v * v for v in layer) ** 0.5
        assert found[head] == pytest.approx(slow[head] / norm, rel=1e-5)


def test_gradient_importance_does_not_depend_on_batches(model):
    whole = importance.gradient_importance(model, [as_batch()])
    source, previous = as_batch()["src_tokens"], as_batch()
    parts = []
    for i in range(len(LENGTHS)):
        row = {k: v[i : i + 1] for k, v in previous.items()}
        parts.append(row)
    apart = importance.gradient_importance(model, parts)
    assert source.shape[0] == 3
    assert all(apart[h] == pytest.approx(whole[h], rel=1e-3) for h in whole)


def test_gradient_importance_leaves_the_model_as_it_was(model):
    sample = as_batch()
    arguments = sample["src_tokens"], sample["src_lengths"], sample["prev_output_tokens"]
    before = model(*arguments)[0]
    importance.gradient_importance(model, [sample])
    assert torch.equal(model(*arguments)[0], before)
    assert all(p.grad is None for p in model.parameters())


def test_confidence_is_the_mean_largest_weight_without_end_of_sentence(model):
    eos, pad = 2, 1
    sample = as_batch()
    found = importance.confidence(model, [sample], eos)
    with record_attention(model) as maps:
        model(sample["src_tokens"], sample["src_lengths"], sample["prev_output_tokens"])
    for head in existing_layout(model):
        queries = sample["src_tokens" if head.type == "enc_self" else "prev_output_tokens"]
        keys = sample["prev_output_tokens" if head.type == "dec_self" else "src_tokens"]
        largest = []
        for b, row in enumerate(queries.tolist()):
            for q, token in enumerate(row):
                if token not in (eos, pad):
                    weights = maps[head.type][head.layer][b, head.head, q].tolist()
                    kept = [w for w, k in zip(weights, keys[b].tolist()) if k not in (eos, pad)]
                    largest.append(max(kept))
        assert found[head] == pytest.approx(sum(largest) / len(largest), rel=1e-5)


def test_relevance_scores_add_up_to_one_in_a_layer(model):
    found = importance.relevance(model, [as_batch()], "alpha-beta")
    layer = [v for h, v in found.items() if (h.type, h.layer) == ("enc_self", 1)]
    assert len(layer) == 4 and sum(layer) == pytest.approx(1, abs=1e-4)


def test_relevance_of_both_signs_is_ranked_by_magnitude(model, monkeypatch):
    """Head 1 pushes for the token at one step and against it at the next: it matters most."""
    values = torch.tensor([[[0.2, 0.8]], [[0.2, -0.8]]])[:, :, None]  # [steps, sentences, layers, heads]
    fake = dict.fromkeys(("enc_self", "dec_self", "dec_enc"), values)
    monkeypatch.setattr(importance.lrp, "head_relevance", lambda *_, **__: fake)
    monkeypatch.setattr(importance, "existing_layout", lambda _: HeadLayout.full(1, 2, 1, 2))
    found = importance.relevance(model, [as_batch()], "epsilon")
    assert found[Head("enc_self", 0, 1)] == pytest.approx(0.8)
    assert found[Head("enc_self", 0, 0)] == pytest.approx(0.2)


@pytest.mark.parametrize("rule", ["alpha-beta", "epsilon"])
def test_relevance_is_the_mean_absolute_share_of_every_step(model, rule):
    sample = as_batch()
    found = importance.relevance(model, [sample], rule)
    result = importance.lrp.head_relevance(
        model, sample["src_tokens"], None, sample["prev_output_tokens"], rule=rule
    )
    shares = []
    for row in result["dec_enc"][result.valid][:, 1].tolist():  # [heads] of layer 1, a step each
        total = sum(abs(x) for x in row)
        shares.append([abs(x) / total for x in row])
    for head in range(4):
        mean = sum(share[head] for share in shares) / len(shares)
        assert found[Head("dec_enc", 1, head)] == pytest.approx(mean, rel=1e-6)


FULL = HeadLayout.full(2, 2, 1, 2)


def test_random_scores_depend_on_the_seed_alone():
    assert importance.random_scores(FULL, 1) == importance.random_scores(FULL, 1)
    assert importance.random_scores(FULL, 1) != importance.random_scores(FULL, 2)
