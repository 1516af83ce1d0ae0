"""What is said before fairseq does anything."""

from argparse import Namespace

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.fairseq_adapter.early_checks import check_arguments
from tests.helpers import command_lines


@pytest.fixture
def good(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("data", "text"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "dict.en.txt").write_text("a 1\n")
    (tmp_path / "lines").write_text("a\n")
    return dict(task="translation", data="data", cpu=True)


TRAINING = dict(max_update=9, save_dir="new")
INTERACTIVE = dict(buffer_size=1, input="-")
BAD = [
    (dict(data="none"), "the folder none does not exist: name the one that fairseq-preprocess wrote"),
    (dict(data="text"), "text holds no binarised data"),
    (dict(data="none:data"), "the folder none does not exist"),
    (dict(INTERACTIVE, input="none"), "--input none is not a file"),
    (dict(INTERACTIVE, input="text"), "--input text is not a file"),
    (dict(TRAINING, fp16=True), "--fp16 trains on GPUs only, and --cpu is given: leave --fp16 out"),
    (dict(TRAINING, fp16=True, cpu=False), "--fp16 trains on GPUs only, and there is none here"),
    (dict(TRAINING, bf16=True), "--bf16 trains on GPUs only"),
    (dict(TRAINING, save_dir="lines"), "--save-dir lines: .* is a file"),
    (dict(results_path="lines"), "--results-path lines: .* is a file"),
    (dict(relevance_table="no/x.json"), "the folder of --relevance-table no/x.json does not exist"),
    (dict(TRAINING, tensorboard_logdir="log"), "--tensorboard-logdir .*: pip install tensorboard, or"),
    (dict(TRAINING, wandb_project="log"), "--wandb-project .*: pip install wandb, or"),
]
FINE = [
    dict(data="data:none"),
    dict(data="s3://bucket/data"),
    dict(task="language_modeling", data="none"),
    dict(data=None),
    INTERACTIVE,
    dict(INTERACTIVE, input="lines"),
    TRAINING,
    dict(TRAINING, fp16=True, memory_efficient_fp16=True),
    dict(TRAINING, save_dir="lines", no_save=True),
    dict(fp16=True),  # translates in half precision on a CPU
    dict(results_path="new/results"),
]


@pytest.mark.parametrize("given, message", BAD)
def test_what_cannot_go_well_is_refused(good, given, message, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        check_arguments(Namespace(**{**good, **given}), gpu=False, installed=lambda name: False)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("given", FINE)
def test_the_rest_is_left_to_fairseq(good, given, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    check_arguments(Namespace(**{**good, **given}), gpu=False, installed=lambda name: False)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_gpu_and_packages_that_are_there_serve(good):
    more = dict(TRAINING, fp16=True, cpu=False, tensorboard_logdir="log", wandb_project="x")
    there = {"tensorboardX", "wandb"}
    check_arguments(Namespace(**{**good, **more}), gpu=True, installed=lambda name: name in there)


def test_fairseq_asks_when_it_has_parsed(good):
    with pytest.raises(UserError, match="the folder none does not exist"):
        command_lines.generate("none", "--path", "none.pt", *command_lines.USER_DIR)
    with pytest.raises(UserError, match="--input none is not a file"):
        command_lines.interactive([], "data", "--path", "x.pt", "--input", "none", *command_lines.USER_DIR)
    with pytest.raises(UserError, match="--fp16 trains on GPUs only"):
        command_lines.tiny_model("new", "data", "gated_transformer", "--fp16")
