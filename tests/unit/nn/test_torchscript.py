"""TorchScript as fairseq's own export test asks for it: the model, and a whole beam search."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_headprune.units.layout import HeadLayout
from tests.helpers.our_models import gated, set_log_a
from tests.helpers.small_models import batch, dictionary, randomise

SOME = HeadLayout(((0, 3), (2,)), ((1,), (0, 1, 2)), ((0, 1, 3), ()))


def build(kind):
    options = {}
    if kind == "pruned":
        options = dict(gate_types="none", head_layout=SOME.to_json())
    model = gated(**options)
    randomise(model, seed=3, bias=0.1)
    if kind == "gated":
        set_log_a(model, SOME)
    return model.eval()


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("kind", ["gated", "pruned"])
def test_scripted_model_gives_the_same(kind, prepared, tmp_path):
    model = build(kind)
    src, lengths, prev, _ = batch([(5, 6), (7, 4), (3, 5)])
    expected = model(src, lengths, prev)[0]
    if prepared:
        model.make_generation_fast_()
    scripted = torch.jit.script(model)
    scripted.save(str(tmp_path / "model.pt"))
    loaded = torch.jit.load(str(tmp_path / "model.pt"))
    for module in (scripted, loaded):
        torch.testing.assert_close(module(src, lengths, prev)[0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["gated", "pruned"])
def test_scripted_search_gives_the_same_hypotheses(kind):
    model = build(kind)
    src, lengths, _, _ = batch([(5, 6), (7, 4), (3, 5)])
    sample = {"net_input": {"src_tokens": src, "src_lengths": lengths}}
    generator = SequenceGenerator([model], dictionary(12), beam_size=3, max_len_b=10)
    expected = generator.generate([model], sample)
    found = torch.jit.script(generator)(sample)
    for ours, theirs in zip(found, expected):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in theirs]
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a["score"], b["score"], atol=1e-5, rtol=1e-5)
