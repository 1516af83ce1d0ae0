"""Removed, dense and gated checkpoints are the same model; bad files and layouts are refused."""

import os
import subprocess
import sys

import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.commands import main
from fairseq_headprune.nn.projections import existing_layout
from fairseq_headprune.selection import gate_table
from fairseq_headprune.selection.choose import chosen
from fairseq_headprune.units.layout import Head, HeadLayout
from tests.helpers import checkpoint_files
from tests.helpers.full_disk import files_end_at
from tests.helpers.our_models import config, gated, set_log_a, stock
from tests.helpers.small_models import batch, randomise
from tests.helpers.translate import beam, logits, same_translations
from tests.unit.nn.test_attention import LENGTHS, ONE_EMPTY, SOME


def gated_file(tmp_path, layout, **options):
    model = gated(**options)
    randomise(model, seed=3, bias=0.1)
    set_log_a(model, layout)
    model.flat_options = config(**options)
    return model.eval(), checkpoint_files.write(model, tmp_path / "gated.pt", "gated_transformer")


@pytest.mark.parametrize("layout", [SOME, *ONE_EMPTY.values()], ids=["some", *ONE_EMPTY])
@pytest.mark.parametrize("tied", [False, True])
def test_gated_removed_and_dense_models_agree(tmp_path, layout, tied):
    model, path = gated_file(tmp_path, layout, share_all_embeddings=tied)
    src, lengths, prev, _ = batch(LENGTHS)
    expected, translations = logits(model, src, lengths, prev), beam(model, src, lengths)
    sizes = {}
    for name, dense in (("pruned", False), ("dense", True)):
        out = tmp_path / f"{name}.pt"
        removal.save(removal.remove_heads(checkpoints.load_checkpoint(path), dense=dense), out)
        sizes[name] = os.path.getsize(out)
        again = checkpoint_files.load(out)
        torch.testing.assert_close(logits(again, src, lengths, prev), expected, atol=1e-5, rtol=1e-5)
        assert same_translations(beam(again, src, lengths), translations)
        again.prepare_for_inference_(config_for_inference())
        assert same_translations(beam(again, src, lengths), translations)
    assert sizes["pruned"] < sizes["dense"]
    assert existing_layout(checkpoint_files.load(tmp_path / "pruned.pt")) == layout
    state = checkpoints.load_checkpoint(tmp_path / "pruned.pt")
    assert checkpoints.open_layout(state) == checkpoints.existing_layout(state) == layout


def config_for_inference():
    from omegaconf import OmegaConf

    return OmegaConf.create({"generation": {"beam": 5, "no_beamable_mm": True, "print_alignment": None}})


def test_parameters_shrink_by_exactly_the_heads_removed(tmp_path):
    _, path = gated_file(tmp_path, SOME)
    state = checkpoints.load_checkpoint(path)
    full = removal.parameter_count(removal.without_gates(state["model"]))
    less = removal.parameter_count(removal.remove_heads(state)["model"])
    width, d = 16, 4
    per_head = 4 * width * d + 3 * d
    assert full - less == (24 - len(SOME)) * per_head


def test_chosen_heads_leave_a_stock_checkpoint(tmp_path):
    model = stock(share_all_embeddings=True)
    randomise(model, seed=3, bias=0.1)
    path = checkpoint_files.write(model, tmp_path / "stock.pt", "transformer")
    state = checkpoints.load_checkpoint(path)
    assert checkpoints.existing_layout(state) == HeadLayout.full(2, 4, 2, 4)
    removal.save(removal.remove_heads(state, SOME), tmp_path / "pruned.pt")
    pruned = checkpoint_files.load(tmp_path / "pruned.pt")
    for module, heads in ((pruned.encoder.layers[0].self_attn, SOME.enc_self[0]),):
        old = model.encoder.layers[0].self_attn
        for i, head in enumerate(heads):
            torch.testing.assert_close(
                module.q_proj.weight[4 * i : 4 * i + 4], old.q_proj.weight[4 * head : 4 * head + 4]
            )
            torch.testing.assert_close(
                module.out_proj.weight[:, 4 * i : 4 * i + 4], old.out_proj.weight[:, 4 * head : 4 * head + 4]
            )
    shared = [pruned.encoder.embed_tokens.weight, pruned.decoder.output_projection.weight]
    assert shared[0] is shared[1]


def test_a_removed_model_is_pruned_again_and_made_dense(tmp_path):
    _, path = gated_file(tmp_path, SOME)
    once = removal.remove_heads(checkpoints.load_checkpoint(path))
    removal.save(once, tmp_path / "once.pt")
    fewer = SOME.without([Head("enc_self", 0, 3), Head("dec_enc", 1, 2)])
    twice = removal.remove_heads(checkpoints.load_checkpoint(tmp_path / "once.pt"), fewer)
    dense = removal.remove_heads(checkpoints.load_checkpoint(tmp_path / "once.pt"), fewer, dense=True)
    removal.save(twice, tmp_path / "twice.pt")
    removal.save(dense, tmp_path / "dense.pt")
    src, lengths, prev, _ = batch(LENGTHS)
    torch.testing.assert_close(
        logits(checkpoint_files.load(tmp_path / "twice.pt"), src, lengths, prev),
        logits(checkpoint_files.load(tmp_path / "dense.pt"), src, lengths, prev),
        atol=1e-5,
        rtol=1e-5,
    )


def test_half_precision_files_are_half_as_large_and_stay_tied(tmp_path):
    _, path = gated_file(tmp_path, SOME, share_all_embeddings=True)
    state = checkpoints.load_checkpoint(path)
    single, half = removal.remove_heads(state), removal.remove_heads(state, fp16=True)
    assert all(v.dtype == torch.float16 for v in half["model"].values() if v.is_floating_point())
    assert removal.parameter_count(single["model"]) == removal.parameter_count(half["model"])


@pytest.mark.parametrize("dense", [False, True])
def test_what_is_written_loads_without_any_repair(tmp_path, dense):
    _, path = gated_file(tmp_path, SOME)
    removal.save(removal.remove_heads(checkpoints.load_checkpoint(path), dense=dense), tmp_path / "out.pt")
    program = (
        "import torch, sys\n"
        f"state = torch.load({str(tmp_path / 'out.pt')!r}, weights_only=True)\n"
        "assert 'fairseq' not in sys.modules and 'omegaconf' not in sys.modules\n"
        "print(state['cfg']['model']['_name'])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ("transformer" if dense else "pruned_transformer")


def test_no_dec_enc_head_left_is_refused_unless_allowed(tmp_path):
    none = HeadLayout(SOME.enc_self, SOME.dec_self, ((), ()))
    _, path = gated_file(tmp_path, none)
    state = checkpoints.load_checkpoint(path)
    with pytest.raises(UserError, match="every dec-enc head"):
        removal.remove_heads(state)
    assert removal.remove_heads(state, allow_no_cross_attention=True)["model"]


def test_keep_takes_the_most_open_gates(tmp_path):
    model, path = gated_file(tmp_path, SOME)
    model.encoder.layers[1].self_attn.gates.scaled_log_a.data[1] = 1.0
    checkpoint_files.write(model, path, "gated_transformer")
    state = checkpoints.load_checkpoint(path)
    kept = chosen(state, gate_table.gate_table(state), {"enc_self": 1})
    assert kept.enc_self == ((), (1,)) and kept.dec_self == SOME.dec_self
    assert len(chosen(state, gate_table.gate_table(state), {"total": 9})) == 9
    with pytest.raises(UserError, match="--keep asks for 25 heads"):
        chosen(state, gate_table.gate_table(state), {"total": 25})


def test_description_shows_layout_probabilities_and_counts(tmp_path):
    _, path = gated_file(tmp_path, SOME)
    text = gate_table.describe(checkpoints.load_checkpoint(path))
    assert "3 of 8" in text and "enc-self layer 0   0: 0.997  1: 0.015" in text
    assert "enc-self      8     3       5          0       3" in text


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04broken"])
def test_foreign_and_truncated_files_are_named(tmp_path, content):
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(UserError, match="x.pt"):
        checkpoints.load_checkpoint(path)
    with pytest.raises(UserError, match="does not exist"):
        checkpoints.load_checkpoint(tmp_path / "missing.pt")


def test_a_cut_off_checkpoint_is_named(tmp_path):
    _, path = gated_file(tmp_path, SOME)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match="truncated"):
        checkpoints.load_checkpoint(path)


def test_other_models_are_refused(tmp_path):
    path = tmp_path / "lm.pt"
    torch.save(
        {"model": {"decoder.layers.0.self_attn.q_proj.weight": torch.zeros(1)}, "cfg": {"model": {}}}, path
    )
    with pytest.raises(UserError, match="not an encoder-decoder Transformer"):
        checkpoints.load_checkpoint(path)
    torch.save([1, 2], path)
    with pytest.raises(UserError, match="no 'model' entry"):
        checkpoints.load_checkpoint(path)


def set_option(state, name, value):
    state["cfg"]["model"][name] = value


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["cfg"].pop("model"),
        lambda state: state.update(cfg="text"),
        lambda state: set_option(state, "encoder_attention_heads", 0),
        lambda state: set_option(state, "encoder_attention_heads", "four"),
        lambda state: set_option(state, "encoder_attention_heads", 2),
        lambda state: set_option(state, "head_layout", '{"enc_self": [[0]], "dec_self": [], "dec_enc": []}'),
        lambda state: state["model"].pop("encoder.layers.1.self_attn.out_proj.weight"),
        lambda state: state["model"]["encoder.layers.1.self_attn.gates.scaled_log_a"].fill_(float("nan")),
    ],
    ids=["no model", "text", "no heads", "word", "other heads", "other layout", "no weight", "nan gates"],
)
def test_checkpoints_that_contradict_themselves_are_named(tmp_path, damage):
    _, path = gated_file(tmp_path, SOME)
    state = torch.load(path, weights_only=True)
    damage(state)
    torch.save(state, path)
    with pytest.raises(UserError, match="gated.pt"):
        checkpoints.load_checkpoint(path)


def test_a_layout_without_any_head_is_a_layout(tmp_path):
    _, path = gated_file(tmp_path, SOME)
    state = checkpoints.load_checkpoint(path)
    none = chosen(state, gate_table.gate_table(state), {"total": 0})
    with pytest.raises(UserError, match="every dec-enc head"):
        removal.remove_heads(state, none)
    out = tmp_path / "none.pt"
    removal.save(removal.remove_heads(state, none, allow_no_cross_attention=True), out)
    assert len(checkpoints.open_layout(checkpoints.load_checkpoint(out))) == 0


@pytest.mark.parametrize("name", [".", "new/"])
def test_a_folder_is_no_checkpoint(tmp_path, name):
    with pytest.raises(UserError, match="is a folder"):
        removal.save({}, f"{tmp_path}/{name}")
    with pytest.raises(UserError, match="is a folder"):
        checkpoints.load_checkpoint(tmp_path)


def test_outputs_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    out = tmp_path / "out.pt"
    out.write_bytes(b"precious")
    with pytest.raises(UserError, match="exists already"):
        removal.save({}, out)
    with pytest.raises(UserError, match="does not exist"):
        removal.save({}, tmp_path / "no" / "out.pt")

    def fail(state, path):
        open(path, "wb").write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(UserError, match="disk full"):
        removal.save({}, out, force=True)
    assert out.read_bytes() == b"precious" and os.listdir(tmp_path) == ["out.pt"]


def test_a_full_disk_is_said_in_a_sentence_and_before_the_work_where_possible(tmp_path, capsys, monkeypatch):
    path = checkpoint_files.write(stock(), tmp_path / "stock.pt", "transformer")
    layout = '{"enc_self": [[0], [1]], "dec_self": [[0], [1]], "dec_enc": [[0], [1]]}'
    with files_end_at(3000), pytest.raises(SystemExit) as stop:
        main(["remove", path, tmp_path / "small.pt", "--layout", layout])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and said.startswith(f"error: cannot write {tmp_path}/small.pt: ")
    assert said.count("\n") == 1 and os.listdir(tmp_path) == ["stock.pt"]

    monkeypatch.setattr(checkpoints, "load_checkpoint", None)  # not reached
    with pytest.raises(SystemExit) as stop:
        main(["remove", path, tmp_path / "no" / "small.pt", "--layout", layout])
    assert stop.value.code == 2 and "does not exist: create it first" in capsys.readouterr().err
