"""--encoder-layers-to-keep and --decoder-layers-to-keep: heads and weights go with their layers."""

import pytest
import torch
from torch import nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.models.kept_layers import keep_weights
from fairseq_headprune.nn.projections import existing_layout
from fairseq_headprune.units.kept_layers import cut_layout, cut_weights, parse_kept
from fairseq_headprune.units.layout import HeadLayout
from tests.helpers.our_models import config, gated, set_log_a
from tests.helpers.small_models import batch, randomise
from tests.helpers.translate import logits

LAYOUT = HeadLayout(((0, 3), (), (1, 2)), ((1,), (0, 2, 3), (2,)), ((0, 1), (3,), (0, 2)))


@pytest.mark.parametrize(
    "text, numbers", [(None, None), ("", None), ("2,0", (0, 2)), ("1", (1,)), (" 0, 1 ", (0, 1))]
)
def test_numbers_of_layers(text, numbers):
    assert parse_kept(text, 3, "encoder") == numbers


@pytest.mark.parametrize(
    "text, words",
    [("0,3", "names layer 3, and the last of the 3 is 2"), ("0,x", "does not take"), ("1,1", "different")],
)
def test_layers_that_are_not_there(text, words):
    with pytest.raises(UserError, match=f"--decoder-layers-to-keep .*{words}"):
        parse_kept(text, 3, "decoder")


def test_a_layout_is_cut_with_its_layers():
    cut = cut_layout(LAYOUT, {"encoder": (0, 2), "decoder": None})
    assert cut == HeadLayout(((0, 3), (1, 2)), LAYOUT.dec_self, LAYOUT.dec_enc)
    assert cut_layout(cut, {"encoder": (0, 2), "decoder": (1,)}) == HeadLayout(
        ((0, 3), (1, 2)), ((0, 2, 3),), ((3,),)
    )
    ssru = HeadLayout(LAYOUT.enc_self, (), LAYOUT.dec_enc)
    assert cut_layout(ssru, {"encoder": None, "decoder": (2,)}) == HeadLayout(ssru.enc_self, (), ((0, 2),))


def test_weights_are_numbered_anew():
    weights = {"encoder.layers.0.a": 0, "encoder.layers.2.a": 2, "decoder.layers.0.a": 9, "encoder.b": 5}
    assert cut_weights(weights, "encoder", (2,)) == {
        "encoder.layers.0.a": 2,
        "decoder.layers.0.a": 9,
        "encoder.b": 5,
    }


@pytest.mark.parametrize("encoder, decoder", [("0,2", None), (None, "1"), ("1", "2,0")])
@pytest.mark.parametrize("layout", [LAYOUT, None], ids=["removed", "gated"])
def test_a_model_with_layers_kept_is_the_whole_one_without_the_others(layout, encoder, decoder):
    sizes = {"encoder_layers": 3, "decoder_layers": 3, "head_layout": layout.to_json() if layout else ""}
    whole = gated(**sizes)
    randomise(whole, seed=3, bias=0.1)
    if layout is None:
        set_log_a(whole, LAYOUT)
    state = {name: value.clone() for name, value in whole.state_dict().items()}
    keep = {"encoder_layers_to_keep": encoder, "decoder_layers_to_keep": decoder}
    model, cfg = gated(**sizes, **keep), config(**sizes, **keep)
    cfg._name = "gated_transformer"
    model.load_state_dict(state, model_cfg=cfg)
    for stack, text in (("encoder", encoder), ("decoder", decoder)):
        layers = getattr(whole, stack).layers
        numbers = sorted(map(int, text.split(","))) if text else range(3)
        getattr(whole, stack).layers = nn.ModuleList([layers[n] for n in numbers])
        getattr(whole, stack).num_layers = len(numbers)
        assert (cfg[f"{stack}_layers"], cfg[f"{stack}_layers_to_keep"]) == (len(numbers) if text else 3, None)
    src, lengths, prev, _ = batch([(5, 4), (3, 6)])
    torch.testing.assert_close(logits(model, src, lengths, prev), logits(whole, src, lengths, prev))
    assert existing_layout(model) == existing_layout(whole)
    again = model.state_dict()
    assert keep_weights(dict(again), config(**sizes, **keep)).keys() == again.keys()


def test_gates_are_added_to_the_layers_kept():
    sizes = {"encoder_layers": 3, "decoder_layers": 2}
    stock = gated(**sizes, gate_types="none")
    options = {**sizes, "encoder_layers_to_keep": "1,2"}
    model = gated(**options)
    model.load_state_dict(dict(stock.state_dict()), model_cfg=config(**options))
    kept = model.encoder.layers[0].self_attn
    assert torch.equal(kept.q_proj.weight, stock.encoder.layers[1].self_attn.q_proj.weight)
    assert len(model.encoder.layers) == 2 and kept.gates is not None
