"""What the product cannot do is one sentence at the first command that meets it."""

import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from tests.cli.test_kept_layers import LAYOUT, score
from tests.cli.test_starting_file import start
from tests.helpers import command_lines
from tests.helpers.command_lines import USER_DIR

ADAPTIVE = ["--adaptive-softmax-cutoff", "8,16", "--ddp-backend", "legacy_ddp"]


@pytest.mark.parametrize(
    "more, option",
    [
        (["--cross-self-attention"], "--cross-self-attention"),
        (["--quant-noise-pq", "0.1"], "--quant-noise-pq"),
        (
            ["--arch", "transformer_align", "--alignment-layer", "1", "--alignment-heads", "1"],
            "transformer_align",
        ),
    ],
)
def test_other_attention_is_named_by_every_command(tiny, tmp_path, more, option):
    path = command_lines.tiny_model(tmp_path / "x", tiny.data, "transformer", *more, "--max-update", "1")
    record = ["--task", "translation_headprune", "--dump-attention", str(tmp_path / "dump")]
    for attempt in (
        lambda: checkpoints.load_checkpoint(path),
        lambda: start(tiny.data, tmp_path / "out", path),
        lambda: command_lines.generate(
            tiny.data, "--path", path, "--gen-subset", "test", "--cpu", *record, *USER_DIR
        ),
    ):
        with pytest.raises(UserError, match=option):
            attempt()
    assert not (tmp_path / "dump").exists() and not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("task", ["translation_multi_simple_epoch", "multilingual_translation"])
def test_tasks_of_several_languages_are_refused_before_training(tiny, tmp_path, task):
    more = ["--task", task, "--lang-pairs", "src-tgt"]
    if "simple" in task:
        more += ["--langs", "src,tgt"]
    else:
        more += ["--source-lang", "src", "--target-lang", "tgt"]
    with pytest.raises(UserError, match=task):
        command_lines.tiny_model(tmp_path / "out", tiny.data, "gated_transformer", *more)


def test_an_adaptive_softmax_is_kept_by_removal_and_refused_by_gates(tiny, tmp_path):
    more = [*ADAPTIVE, "--criterion", "adaptive_loss", "--max-update", "5"]
    path = command_lines.tiny_model(tmp_path / "x", tiny.data, "transformer", *more)
    files = [tmp_path / "small.pt", tmp_path / "dense.pt"]
    for file, dense in zip(files, (False, True)):
        removal.save(removal.remove_heads(checkpoints.load_checkpoint(path), LAYOUT, dense=dense), file)
    assert score(tiny.data, files[0]) == pytest.approx(score(tiny.data, files[1]), abs=3e-4)
    with pytest.raises(UserError, match="--adaptive-softmax-cutoff exclude each other"):
        start(tiny.data, tmp_path / "out", path, *ADAPTIVE[2:])
    record = ["--task", "translation_headprune", "--head-relevance", "epsilon"]
    with pytest.raises(UserError, match="--adaptive-softmax-cutoff"):
        score(tiny.data, path, *record)


@pytest.mark.parametrize("option, value", [("no_cross_attention", True), ("base_layers", 1)])
def test_rarer_options_are_refused_on_reading(tiny, tmp_path, option, value):
    state = torch.load(tiny.checkpoint, weights_only=True)
    setattr(state["cfg"]["model"], option, value)
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(UserError, match="x.pt was trained with --" + option.replace("_", "-")):
        checkpoints.load_checkpoint(tmp_path / "x.pt")
