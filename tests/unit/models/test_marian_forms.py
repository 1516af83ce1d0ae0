"""Models in the forms of Marian: SSRU, first input, positions, output bias, no <unk>."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.lrp import head_relevance
from fairseq_headprune.nn import decoder_step
from fairseq_headprune.nn.activations import MORE
from fairseq_headprune.nn.positions import Positions
from fairseq_headprune.nn.projections import attention_modules, existing_layout
from fairseq_headprune.nn.ssru import SSRU
from fairseq_headprune.recording.maps import record_attention
from fairseq_headprune.recording.relevance_table import RelevanceTable
from fairseq_headprune.selection import gate_table
from fairseq_headprune.units.layout import HeadLayout
from tests.helpers import checkpoint_files
from tests.helpers.our_models import config, gated, set_log_a
from tests.helpers.small_models import batch, randomise
from tests.helpers.translate import beam, logits, same_translations, step_by_step

MARIAN = dict(
    decoder_self="ssru", decoder_start="zero", position_encoding="marian", output_bias=True, no_unk=True
)
FORMS = {
    "ssru": MARIAN,
    "attention, swish": {**MARIAN, "decoder_self": "attention", "activation_fn": "swish"},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True, **MARIAN),
    "marian's gelu": {**MARIAN, "activation_fn": "gelu_sigmoid"},
    "tied": dict(share_all_embeddings=True, **MARIAN),
    "hf": dict(decoder_start="pad", position_encoding="hf-marian", output_bias=True, activation_fn="gelu"),
}
LENGTHS = [(5, 6), (7, 4), (3, 5)]
SOME = HeadLayout(((0, 3), (2,)), (), ((0, 1, 3), (1,)))


def build(**options):
    model = gated(**options)
    randomise(model, seed=3, bias=0.3)
    return model


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS.keys())
def test_steps_are_those_of_teacher_forcing_and_the_short_way_finds_the_same(options, monkeypatch):
    src, lengths, prev, _ = batch(LENGTHS)
    model, whole = build(gate_types="none", **options), ~prev.eq(1)
    expected = logits(model, src, lengths, prev)
    assert decoder_step.can_step(model.decoder)
    found = beam(model, src, lengths)
    short = step_by_step(model, src, lengths, prev)
    fast = copy.deepcopy(model)
    fast.make_generation_fast_()
    prepared = step_by_step(fast, src, lengths, prev)
    monkeypatch.setattr(decoder_step, "can_step", lambda decoder: False)
    for steps in (short, prepared, step_by_step(model, src, lengths, prev)):
        torch.testing.assert_close(steps[whole], expected[whole], atol=1e-5, rtol=1e-5)
    assert same_translations(found, beam(model, src, lengths), tolerance=1e-5)


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS.keys())
def test_torchscript(options):
    src, lengths, prev, _ = batch(LENGTHS)
    model = build(gate_types="none", **options)
    torch.testing.assert_close(
        torch.jit.script(model)(src, lengths, prev)[0], logits(model, src, lengths, prev)
    )


def test_open_gates_change_nothing_and_removed_heads_are_zeroed_heads():
    src, lengths, prev, _ = batch(LENGTHS)
    bare, with_gates = build(gate_types="none", **MARIAN), gated(**MARIAN)
    with_gates.load_state_dict({**with_gates.state_dict(), **bare.state_dict()})
    expected = logits(bare, src, lengths, prev)
    torch.testing.assert_close(logits(with_gates, src, lengths, prev), expected)

    pruned = gated(gate_types="none", head_layout=SOME.to_json(), **MARIAN)
    with torch.no_grad():
        for key, modules in attention_modules(bare).items():
            for layer, module in enumerate(modules):
                d, kept = module.head_dim, SOME[key][layer]
                rows = torch.tensor([h * d + i for h in kept for i in range(d)])
                gone = [h for h in range(4) if h not in kept]
                for h in gone:
                    module.out_proj.weight[:, h * d : (h + 1) * d] = 0
                target = attention_modules(pruned)[key][layer]
                for name in ("q_proj", "k_proj", "v_proj"):
                    getattr(target, name).weight.copy_(getattr(module, name).weight[rows])
                    getattr(target, name).bias.copy_(getattr(module, name).bias[rows])
                target.out_proj.weight.copy_(module.out_proj.weight[:, rows])
        whole = bare.state_dict()
        same = {k: v for k, v in whole.items() if v.shape == pruned.state_dict()[k].shape}
        own = {k: v for k, v in pruned.state_dict().items() if k not in same}
        pruned.load_state_dict({**same, **own})
    zeroed = logits(bare, src, lengths, prev)
    assert (zeroed - expected).abs().max() > 1e-3
    torch.testing.assert_close(logits(pruned, src, lengths, prev), zeroed)


def test_the_unit_is_its_equations():
    torch.manual_seed(1)
    unit, x = SSRU(5), torch.randn(4, 2, 5)
    c = torch.zeros(2, 5)
    for t, out in enumerate(unit(x, x, x)[0]):
        f = torch.sigmoid(x[t] @ unit.forget.weight.T + unit.forget.bias)
        c = f * c + (1 - f) * (x[t] @ unit.value.weight.T)
        torch.testing.assert_close(out, F.relu(c))


@pytest.mark.parametrize("encoding, divisor", [("marian", 7), ("hf-marian", 8)])
def test_positions(encoding, divisor):
    found = Positions(encoding, 16, padding_idx=1, size=4)(torch.tensor([[1, 1, 5, 6, 7, 8, 9]]))[0]
    assert (found[:2] == 0).all()  # padding
    for p in range(5):
        angles = [p * 10000 ** (-i / divisor) for i in range(8)]
        expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        torch.testing.assert_close(found[2 + p], torch.tensor(expected), atol=1e-6, rtol=1e-6)


def test_the_first_input():
    _, _, prev, _ = batch(LENGTHS)
    model = build(**MARIAN)
    x = model.decoder.embed_tokens(prev)
    assert (x[:, 0] == 0).all() and (x[0, 1:] == model.decoder.embed_tokens.weight[prev[0, 1:]]).all()
    tied = build(share_all_embeddings=True, **MARIAN)
    assert tied.decoder.embed_tokens.weight is tied.encoder.embed_tokens.weight
    assert tied.decoder.output_projection.weight is tied.encoder.embed_tokens.weight
    other = build(decoder_start="pad")
    assert (other.decoder.embed_tokens(prev)[:, 0] == other.decoder.embed_tokens.weight[1]).all()


def test_unk_is_never_found_but_scored():
    src, lengths, prev, target = batch(LENGTHS)
    free, bound = (build(**{**MARIAN, "no_unk": value}) for value in (False, True))
    for model in (free, bound):
        model.decoder.output_projection.bias.data[3] = 50.0
    assert any(3 in h[0] for s in beam(free, src, lengths) for h in s)
    assert not any(3 in h[0] for s in beam(bound, src, lengths) for h in s)
    output = bound(src, lengths, prev)
    for sample in ({"target": target}, None):  # fairseq's criterions give none
        assert bound.get_normalized_probs(output, True, sample).isfinite().all()


def test_a_decoder_of_ssrus_has_no_dec_self_heads():
    src, lengths, prev, _ = batch(LENGTHS)
    model = build(**MARIAN)
    layout = existing_layout(model)
    assert layout.dec_self == () and "dec-self" not in layout.table()
    with record_attention(model) as maps:
        model(src, lengths, prev)
    assert [len(list(maps[t])) for t in ("enc_self", "dec_self", "dec_enc")] == [2, 0, 2]


@pytest.mark.parametrize("option", ["decoder_self", "decoder_start", "position_encoding"])
def test_unknown_words_are_refused(option):
    with pytest.raises(UserError, match="--" + option.replace("_", "-")):
        gated(**{option: "other"})


def test_gelu_of_marian():
    x = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(MORE["gelu_sigmoid"](x), x / (1 + torch.exp(-1.702 * x)))


def marian_file(tmp_path, **options):
    model = build(**MARIAN, **options)
    set_log_a(model, SOME)
    model.flat_options = config(**MARIAN, **options)
    return model, checkpoint_files.write(model, tmp_path / "gated.pt", "gated_transformer")


@pytest.mark.parametrize("tied", [False, True])
def test_removal_from_a_checkpoint(tmp_path, tied):
    model, path = marian_file(tmp_path, share_all_embeddings=tied)
    src, lengths, prev, _ = batch(LENGTHS)
    state = checkpoints.load_checkpoint(path)
    assert checkpoints.open_layout(state) == SOME and "dec-self" not in gate_table.describe(state)
    small = tmp_path / "small.pt"
    removal.save(removal.remove_heads(state), small)
    again = checkpoint_files.load(small)
    assert existing_layout(again) == SOME
    torch.testing.assert_close(
        logits(again, src, lengths, prev), logits(model, src, lengths, prev), atol=1e-5, rtol=1e-5
    )
    assert same_translations(beam(again, src, lengths), beam(model, src, lengths))


def test_a_stock_checkpoint_is_refused_by_the_option_that_fairseq_lacks(tmp_path):
    _, path = marian_file(tmp_path)
    with pytest.raises(UserError, match="--decoder-self ssru"):
        removal.remove_heads(checkpoints.load_checkpoint(path), dense=True)


def test_the_table_of_relevance_has_no_empty_type():
    src, lengths, prev, _ = batch(LENGTHS)
    model = build(**MARIAN)
    result = head_relevance(model, src, lengths, prev)
    table = RelevanceTable(existing_layout(model))
    table.add({t: result[t][:, 0].numpy() for t in result})
    assert "enc-self" in table.text() and "dec-self" not in table.text()
    assert not any("dec-self" in line for line in table.lines("R-0"))
