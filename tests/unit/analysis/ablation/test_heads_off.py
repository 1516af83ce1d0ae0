"""Switching heads off, and the losses of models without them."""

import numpy as np
import pytest
import torch

from fairseq_headprune.analysis.ablation.heads_off import heads_off, interventions
from fairseq_headprune.analysis.ablation.loss_difference import LossDifference
from fairseq_headprune.analysis.ablation.sentence_loss import Losses, Scorer
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.nn.projections import attention_modules, open_layout
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, HeadLayout
from tests.helpers import our_models
from tests.helpers.small_models import batch, dictionary, small_transformer

PAD = dictionary(1).pad()


def run(model, src, lengths, prev):
    with torch.no_grad():
        return model(src, lengths, prev)[0]


def zeroed(model, heads):
    """The slow definition: the columns of W_O that read the heads become 0, for good."""
    modules = attention_modules(model)
    for head in heads:
        module = modules[head.type][head.layer]
        place = list(getattr(module, "heads", range(module.num_heads))).index(head.head)
        d = module.head_dim
        module.out_proj.weight.data[:, place * d : (place + 1) * d] = 0
    return model


def models():
    yield "stock", lambda: small_transformer()
    yield "gated", lambda: our_models.gated(gate_types="all")
    layout = HeadLayout.full(2, 4, 2, 4).without([Head("enc_self", 0, 1), Head("dec_enc", 1, 0)])
    yield "pruned", lambda: our_models.gated(head_layout=layout.to_json())


@pytest.mark.parametrize("make", [make for _, make in models()], ids=[name for name, _ in models()])
def test_off_is_the_same_as_zeros_in_w_o(make):
    src, lengths, prev, _ = batch([(5, 4), (3, 6)])
    for off in (
        [Head("enc_self", 0, 2)],
        [Head("dec_self", 1, 3), Head("dec_enc", 0, 0)],
        [Head("dec_enc", 0, h) for h in range(4)],
    ):
        model = make()
        before = run(model, src, lengths, prev)
        with heads_off(model, off):
            inside = run(model, src, lengths, prev)
            assert set(open_layout(model)) == set(open_layout(make())) - set(off)
        after = run(model, src, lengths, prev)
        torch.testing.assert_close(after, before)
        torch.testing.assert_close(inside, run(zeroed(make(), off), src, lengths, prev), atol=1e-5, rtol=1e-5)
        assert (inside - before).abs().max() > 1e-3


def test_closed_gates_stay_closed():
    model = our_models.gated(gate_types="all")
    kept = HeadLayout.full(2, 4, 2, 4).without([Head("enc_self", 0, h) for h in (0, 1)])
    our_models.set_log_a(model, kept)
    with heads_off(model, [Head("enc_self", 0, 2)]):
        assert open_layout(model)["enc_self"][0] == (3,)
    with pytest.raises(UserError, match="has no head enc-self:0:1"):
        with heads_off(model, [Head("enc_self", 0, 1)]):
            pass


def test_an_error_inside_puts_the_model_back():
    model = small_transformer()
    modules = {t: list(m) for t, m in attention_modules(model).items()}
    with pytest.raises(RuntimeError):
        with heads_off(model, [Head("enc_self", 1, 0)]):
            raise RuntimeError
    assert {t: list(m) for t, m in attention_modules(model).items()} == modules


def test_interventions_of_a_layout():
    layout = HeadLayout(enc_self=((0, 3), (2,), ()), dec_self=((1, 2, 3),), dec_enc=((),))
    found = [(i.kind, i.type, i.layer, i.head, {h.head for h in i.off}) for i in interventions(layout)]
    assert found[:6] == [
        ("without", "enc_self", 0, 0, {0}), ("alone", "enc_self", 0, 0, {3}),
        ("without", "enc_self", 0, 3, {3}), ("alone", "enc_self", 0, 3, {0}),
        ("layer", "enc_self", 0, -1, {0, 3}), ("without", "enc_self", 1, 2, {2}),
    ]  # fmt: skip
    assert len(found) == 6 + 3 * 2 + 1
    assert [i.type for i in interventions(layout, ["dec_enc"])] == []


def collated(model_batch, ids):
    src, lengths, prev, target = model_batch
    return {
        "id": torch.tensor(ids),
        "target": target,
        "net_input": {"src_tokens": src, "src_lengths": lengths, "prev_output_tokens": prev},
    }


def test_losses_are_those_of_one_sentence_at_a_time_in_order():
    model = small_transformer()
    batches = [collated(batch([(5, 4), (3, 6)], seed=1), [2, 0]), collated(batch([(7, 3)], seed=5), [1])]
    scorer = Scorer(model, batches, PAD)
    for off in ([], [Head("enc_self", 0, 1)], [Head("dec_enc", 1, 2)]):
        found = scorer.losses(off)
        for b in batches:
            for row, id in enumerate(b["id"].tolist()):
                net = {k: v[row : row + 1] for k, v in b["net_input"].items()}
                source = net["src_tokens"][net["src_tokens"] != PAD][None]
                target = b["target"][row][b["target"][row] != PAD]
                prev = net["prev_output_tokens"][:, : len(target)]
                with heads_off(model, off), torch.no_grad():
                    log_p = torch.log_softmax(model(source, net["src_lengths"], prev)[0], -1)[0]
                slow = -sum(log_p[i, t].item() for i, t in enumerate(target.tolist()))
                assert found.nats[id] == pytest.approx(slow, rel=1e-4)
                assert found.tokens[id] == len(target)


def test_differences_are_paired():
    rng = np.random.default_rng(1)
    tokens = rng.integers(5, 20, 400)
    hard = rng.gamma(2, 10, 400)  # sentences differ much more than models do
    base = Losses(hard * tokens, tokens)
    worse = Losses((hard + 0.1) * tokens + rng.normal(0, 0.1, 400), tokens)
    found = LossDifference(base, 500, 0.95, 1).measure(worse)
    assert found["difference"] == pytest.approx(0.1, abs=0.01)
    assert 0.09 < found["low"] < found["difference"] < found["high"] < 0.11
    same = LossDifference(base, 500, 0.95, 1).measure(base)
    assert same["difference"] == same["low"] == same["high"] == 0


def test_every_type_has_a_place():
    from fairseq_headprune.analysis.ablation.heads_off import PLACES

    assert set(PLACES) == set(ATTENTION_TYPES)
