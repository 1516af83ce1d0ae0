"""Heads that are told where to look, beside loops over queries and keys."""

import pytest
import torch

from fairseq_headprune.analysis.ablation.heads_off import heads_off
from fairseq_headprune.analysis.ablation.replaced import pattern
from fairseq_headprune.nn.projections import attention_modules
from fairseq_headprune.units.layout import Head
from tests.helpers.small_models import batch, small_transformer
from tests.reference.fixed_attention import fixed_attention
from tests.unit.analysis.ablation.test_heads_off import models, run

FIXED = {0: -1, 2: None, 3: 2}
LEFT = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
CASES = {
    "enc_self": dict(padding=LEFT),
    "enc_self right": dict(padding=LEFT.flip(1)),
    "dec_self": dict(causal=True),
    "dec_enc": dict(padding=LEFT, cross=True),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("make", [make for _, make in models()], ids=[name for name, _ in models()])
def test_a_module_is_what_loops_give(make, case):
    type, options = case.split()[0], CASES[case]
    model = make()
    (module, *_) = attention_modules(model)[type]
    heads = getattr(module, "heads", range(4))
    fixed = {head: offset for head, offset in FIXED.items() if head in heads}
    generator = torch.Generator().manual_seed(1)
    key = torch.randn(5, 2, 16, generator=generator)
    query = torch.randn(5, 2, 16, generator=generator) if type == "dec_enc" else key
    mask = torch.full((5, 5), float("-inf")).triu(1) if type == "dec_self" else None
    padding = options.get("padding")
    instead = {Head(type, 0, head): offset for head, offset in fixed.items()}
    with torch.no_grad(), heads_off(model, instead, instead):
        (twin, *_) = (
            layer.encoder_attn if type == "dec_enc" else layer.self_attn
            for layer in (model.encoder if type == "enc_self" else model.decoder).layers
        )
        found, _ = twin(query, key, key, key_padding_mask=padding, attn_mask=mask, need_weights=False)
    slow = fixed_attention(module, query, key, fixed, **options).detach()
    rows = slow.abs().sum(-1) > 0  # padded queries mean nothing
    torch.testing.assert_close(found[rows], slow[rows], atol=1e-5, rtol=1e-5)


def test_a_model_is_changed_and_put_back():
    src, lengths, prev, _ = batch([(5, 4), (3, 6)])
    model = small_transformer()
    before = run(model, src, lengths, prev)
    for type in ("enc_self", "dec_self", "dec_enc"):
        instead = {Head(type, 1, 0): None, Head(type, 1, 3): -1}
        with heads_off(model, instead, instead):
            replaced = run(model, src, lengths, prev)
        with heads_off(model, instead):
            off = run(model, src, lengths, prev)
        assert (replaced - before).abs().max() > 1e-3 and (replaced - off).abs().max() > 1e-3
        torch.testing.assert_close(run(model, src, lengths, prev), before)


def test_padding_does_not_matter():
    long, short = (9, 4), (3, 6)
    model = small_transformer()
    instead = {Head(t, 0, h): o for t in ("enc_self", "dec_self", "dec_enc") for h, o in FIXED.items()}
    with heads_off(model, instead, instead):
        for left in (True, False):
            src, lengths, prev, _ = batch([short, long], left_pad_source=left)
            together = run(model, src, lengths, prev)[0]
            alone = run(model, *(x[:1] for x in (src[:, src[0] != 1], lengths, prev)))[0]
            torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_pattern():
    allowed = torch.tensor([[[True, False, False], [True, True, False], [True, True, True]]])
    assert pattern(allowed, None)[0].tolist() == [[1, 0, 0], [0.5, 0.5, 0], pytest.approx([1 / 3] * 3)]
    assert pattern(allowed, -1)[0].argmax(-1).tolist() == [0, 0, 1]
    assert pattern(allowed, 1)[0].argmax(-1).tolist() == [0, 1, 2]
    shifted = torch.tensor([[[False, True, True]] * 3])
    assert pattern(shifted, 0, cross=True)[0].argmax(-1).tolist() == [1, 2, 2]
