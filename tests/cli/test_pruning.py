"""The pruning path through fairseq's own command lines, on a tiny model."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import progress_bar
from fairseq_cli import validate as validate_cli

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.commands import main
from fairseq_headprune.units.layout import HeadLayout
from tests.conftest import ROOT
from tests.helpers import command_lines
from tests.helpers.command_lines import TINY, USER_DIR

L0 = ["--criterion", "label_smoothed_cross_entropy_l0", "--label-smoothing", "0.1"]
LAYOUT = {
    "enc_self": [[0, 3], []],
    "dec_self": [[], [1]],
    "dec_enc": [[0, 1, 2], [3]],
}


def training_arguments(data, save_dir, *more, arch="gated_transformer", lr="0.005"):
    args = [data, "--arch", arch, *TINY, "--optimizer", "adam", "--lr", lr, "--seed", "1"]
    args += ["--max-tokens", "600", "--save-dir", save_dir, "--valid-subset", "test", "--cpu"]
    args += ["--no-epoch-checkpoints", "--log-format", "none", *USER_DIR]
    if "--criterion" not in more:
        args += L0
    return [str(a) for a in (*args, *more)]


def train(data, save_dir, *more, **kwargs):
    command_lines.train(*training_arguments(data, save_dir, *more, **kwargs))
    return save_dir / "checkpoint_last.pt"


def headprune(*args):
    """Run one of our commands in this process."""
    assert main([str(a) for a in args]) == 0


def hypotheses(data, path, *more):
    """Sentence number -> translation and its score."""
    out = command_lines.generate(
        data,
        "--path",
        path,
        "--gen-subset",
        "test",
        "--beam",
        "5",
        "--max-len-b",
        "12",
        "--cpu",
        "--max-sentences",
        "7",
        *USER_DIR,
        *more,
    )
    return hypotheses_of(out)


def hypotheses_of(printed):
    rows = [line.split("\t") for line in printed.splitlines() if line.startswith("H-")]
    return {int(row[0][2:]): (row[2], float(row[1])) for row in rows}


def same_hypotheses(found, expected):
    """Equal scores within float32 and equal words, of the 24 sentences all but one: two hypotheses
    of equal scores are a tie, which the order of summation decides."""
    assert set(found) == set(expected) == set(range(24))
    assert all(abs(found[n][1] - expected[n][1]) < 1e-4 for n in found)
    return sum(found[n][0] != expected[n][0] for n in found) <= 1


class Messages(logging.Handler):
    """Keeps what a logger is told."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def valid_loss(data, path):
    """Loss per target token as fairseq-validate reports it, without label smoothing."""
    parser = options.get_validation_parser()
    args = [data, "--path", path, "--valid-subset", "test", "--cpu", "--task", "translation"]
    args += ["--max-sentences", "5", "--log-format", "json", *USER_DIR]
    parsed = options.parse_args_and_arch(parser, [str(a) for a in args])
    # at the very logger: what ran before in this process may have turned off the way to the root
    log, messages = progress_bar.logger, Messages()
    before = log.level, log.disabled
    log.addHandler(messages)
    log.setLevel(logging.INFO)
    log.disabled = False
    try:
        validate_cli.main(convert_namespace_to_omegaconf(parsed))
    finally:
        log.removeHandler(messages)
        log.level, log.disabled = before
    (last,) = [text for text in messages.texts if '"test_nll_loss"' in text]
    return float(json.loads(last)["test_nll_loss"])


@pytest.fixture(scope="module")
def pruned(tiny, tmp_path_factory):
    """A gated model with some heads closed, as it comes out of training."""
    out = tmp_path_factory.mktemp("gated")
    return train(
        tiny.data,
        out,
        "--finetune-from-model",
        tiny.checkpoint,
        "--l0-target-heads",
        "9",
        "--max-update",
        "12",
    )


def test_options_are_listed(capsys):
    for arch in ("gated_transformer", "pruned_transformer", "gated_transformer_voita"):
        parser = options.get_training_parser()
        with pytest.raises(SystemExit):
            options.parse_args_and_arch(parser, [*USER_DIR, "--arch", arch, *L0, "--help"])
        text = capsys.readouterr().out
        for name in (
            "--gate-types",
            "--gate-lr-scale",
            "--freeze",
            "--head-layout",
            "--l0-lambda",
            "--l0-target-heads",
            "--encoder-layers",
            "--share-all-embeddings",
        ):
            assert name in text, name


@pytest.mark.parametrize(
    "arch, expected",
    [
        (
            "gated_transformer",
            dict(
                encoder_embed_dim=512,
                decoder_ffn_embed_dim=2048,
                dropout=0.1,
                gate_types="all",
                encoder_normalize_before=False,
            ),
        ),
        ("pruned_transformer", dict(encoder_layers=6, gate_types="none")),
        ("gated_transformer_iwslt_de_en", dict(encoder_ffn_embed_dim=1024, decoder_attention_heads=4)),
        ("gated_transformer_wmt_en_de", dict(encoder_ffn_embed_dim=2048, decoder_attention_heads=8)),
        (
            "gated_transformer_voita",
            dict(
                encoder_normalize_before=True, attention_dropout=0.1, decoder_layers=6, decoder_embed_dim=512
            ),
        ),
    ],
)
def test_named_architectures_set_their_defaults(tiny, arch, expected):
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(tiny.data), *USER_DIR, "--arch", arch])
    model = convert_namespace_to_omegaconf(args).model
    assert {k: model[k] for k in expected} == expected


def test_stock_defaults_are_stock(tiny):
    from argparse import Namespace

    from fairseq.models.transformer.transformer_legacy import base_architecture

    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(tiny.data), *USER_DIR, "--arch", "gated_transformer"])
    ours = convert_namespace_to_omegaconf(args).model
    stock = Namespace()
    base_architecture(stock)
    for name, value in vars(stock).items():
        assert ours[name] == value or (not ours[name] and not value), name


def test_a_fresh_gated_model_validates_and_translates_like_its_baseline(tiny, tmp_path):
    start = train(
        tiny.data,
        tmp_path / "start",
        "--finetune-from-model",
        tiny.checkpoint,
        "--l0-lambda",
        "0.1",
        "--max-update",
        "1",
        lr="0.0",
    )
    assert abs(valid_loss(tiny.data, start) - valid_loss(tiny.data, tiny.checkpoint)) < 2e-3
    translations = hypotheses(tiny.data, start)
    assert same_hypotheses(translations, hypotheses(tiny.data, tiny.checkpoint))
    layout = checkpoints.open_layout(checkpoints.load_checkpoint(start))
    assert layout == HeadLayout.full(2, 4, 2, 4)


def test_gated_removed_and_dense_checkpoints_translate_the_same(tiny, pruned, tmp_path, capsys):
    layout = checkpoints.open_layout(checkpoints.load_checkpoint(pruned))
    assert len(layout) == 9
    expected = hypotheses(tiny.data, pruned)
    headprune("remove", pruned, tmp_path / "small.pt")
    headprune("remove", pruned, tmp_path / "dense.pt", "--dense")
    headprune("remove", pruned, tmp_path / "half.pt", "--fp16")
    assert same_hypotheses(hypotheses(tiny.data, tmp_path / "small.pt"), expected)
    assert same_hypotheses(hypotheses(tiny.data, tmp_path / "dense.pt"), expected)
    assert len(hypotheses(tiny.data, tmp_path / "half.pt")) == 24
    together = f"{tmp_path / 'small.pt'}:{pruned}"
    assert same_hypotheses(hypotheses(tiny.data, together), expected)
    capsys.readouterr()
    headprune("layout", tmp_path / "small.pt", "--json")
    assert HeadLayout.from_json(capsys.readouterr().out) == layout
    lines = command_lines.interactive(
        ["one two", "three four five"],
        tiny.data,
        "--path",
        tmp_path / "small.pt",
        "--cpu",
        "--source-lang",
        "src",
        "--target-lang",
        "tgt",
        *USER_DIR,
    )
    assert sum(line.startswith("H-") for line in lines.splitlines()) == 2


def test_plain_fairseq_loads_a_dense_checkpoint(tiny, pruned, tmp_path):
    headprune("remove", pruned, tmp_path / "dense.pt", "--dense")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "fairseq_cli.generate",
            str(tiny.data),
            "--path",
            str(tmp_path / "dense.pt"),
            "--gen-subset",
            "test",
            "--cpu",
            "--max-len-b",
            "12",
            "--required-batch-size-multiple",
            "1",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert same_hypotheses(hypotheses_of(run.stdout), hypotheses(tiny.data, pruned))


def test_without_the_user_dir_the_message_names_it(tiny, pruned, tmp_path):
    headprune("remove", pruned, tmp_path / "small.pt")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "fairseq_cli.generate",
            str(tiny.data),
            "--path",
            str(tmp_path / "small.pt"),
            "--gen-subset",
            "test",
            "--cpu",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode != 0 and "--user-dir fairseq_headprune" in run.stderr


def test_a_removed_model_is_finetuned_and_pruned_again(tiny, pruned, tmp_path):
    headprune("remove", pruned, tmp_path / "small.pt")
    before = checkpoints.existing_layout(checkpoints.load_checkpoint(tmp_path / "small.pt"))
    tuned = train(
        tiny.data,
        tmp_path / "tuned",
        "--finetune-from-model",
        tmp_path / "small.pt",
        "--max-update",
        "2",
        "--criterion",
        "label_smoothed_cross_entropy",
        arch="pruned_transformer",
    )
    state = checkpoints.load_checkpoint(tuned)
    assert checkpoints.existing_layout(state) == before and not checkpoints.log_alphas(state)
    wanted = len(before) - 2
    again = train(
        tiny.data,
        tmp_path / "again",
        "--finetune-from-model",
        tmp_path / "small.pt",
        "--max-update",
        "8",
        "--l0-target-heads",
        str(wanted),
    )
    state = checkpoints.load_checkpoint(again)
    assert checkpoints.existing_layout(state) == before
    assert len(checkpoints.open_layout(state)) == wanted
    headprune("remove", again, tmp_path / "smaller.pt")
    assert len(hypotheses(tiny.data, tmp_path / "smaller.pt")) == 24


def test_a_layout_file_is_copied_into_the_checkpoint(tiny, tmp_path):
    path = tmp_path / "layout.json"
    path.write_text(json.dumps(LAYOUT))
    last = train(
        tiny.data, tmp_path / "scratch", "--head-layout", path, "--gate-types", "none", "--max-update", "2"
    )
    path.unlink()
    state = checkpoints.load_checkpoint(last)
    assert checkpoints.existing_layout(state) == HeadLayout.from_dict(LAYOUT)
    assert len(hypotheses(tiny.data, last)) == 24


def test_a_run_may_start_from_restore_file(tiny, tmp_path):
    last = train(
        tiny.data,
        tmp_path / "run",
        "--restore-file",
        tiny.checkpoint,
        "--reset-optimizer",
        "--reset-lr-scheduler",
        "--reset-dataloader",
        "--reset-meters",
        "--max-update",
        "1",
        lr="0.0",
    )
    before, after = parameters(tiny.checkpoint), parameters(last)
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert len(checkpoints.log_alphas(checkpoints.load_checkpoint(last))) == 6


def parameters(path):
    return torch.load(path, weights_only=True)["model"]


def test_frozen_parts_stay_bit_identical_over_save_and_resume(tiny, tmp_path):
    args = [
        "--finetune-from-model",
        tiny.checkpoint,
        "--freeze",
        "decoder",
        "--gate-types",
        "enc-self",
        "--l0-lambda",
        "0.1",
        "--weight-decay",
        "0.1",
    ]
    train(tiny.data, tmp_path / "run", *args, "--max-update", "3")
    last = train(tiny.data, tmp_path / "run", *args, "--max-update", "6")
    before, after = parameters(tiny.checkpoint), parameters(last)
    for name, value in before.items():
        same = torch.equal(value, after[name])
        if name.startswith("decoder.") and not name.endswith("_float_tensor"):
            assert same, name
        if name.startswith("encoder.layers") and name.endswith("fc1.weight"):
            assert not same, name


def test_resumed_training_equals_training_in_one_go(tiny, tmp_path):
    args = ["--finetune-from-model", tiny.checkpoint, "--l0-target-heads", "9"]
    whole = train(tiny.data, tmp_path / "whole", *args, "--max-update", "8")
    train(tiny.data, tmp_path / "parts", *args, "--max-update", "4")
    parts = train(tiny.data, tmp_path / "parts", *args, "--max-update", "8")
    one, two = parameters(whole), parameters(parts)
    for name in one:
        torch.testing.assert_close(two[name], one[name], atol=1e-6, rtol=1e-5, msg=name)


def small_data(root, sentences):
    """Data whose training set has so many sentences."""
    command_lines.number_corpus(root, {"train": sentences, "test": 8})
    command_lines.preprocess(
        *("--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"),
        *("--trainpref", root / "train", "--testpref", root / "test", "--destdir", root / "bin"),
    )
    return root / "bin"


@pytest.fixture(scope="module")
def one_batch(tmp_path_factory):
    return small_data(tmp_path_factory.mktemp("one"), 32)


def gates_after_one_step(data, out, sentences, update_freq, workers):
    args = training_arguments(
        data,
        out,
        "--l0-lambda",
        "0.05",
        "--max-sentences",
        str(sentences),
        "--update-freq",
        str(update_freq),
        "--max-update",
        "1",
        "--optimizer",
        "sgd",
        "--dropout",
        "0",
        "--disable-validation",
        "--gate-lr-scale",
        "1",
        "--gate-init",
        "0.3",
        lr="1.0",
    )
    program = str(ROOT / "tests" / "helpers" / "fixed_noise_train.py")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if workers > 1:
        launch = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={workers}",
            program,
            *args,
        ]
    else:
        launch = [sys.executable, program, *args]
    run = subprocess.run(launch, capture_output=True, text=True, env=env, cwd=ROOT)
    assert run.returncode == 0, run.stderr[-3000:]
    state = checkpoints.load_checkpoint(out / "checkpoint_last.pt")
    return torch.cat([v for _, v in sorted(checkpoints.log_alphas(state).items())])


def test_the_gates_gradient_does_not_depend_on_workers_or_accumulation(one_batch, tmp_path):
    """One SGD step of rate 1 from the same start: 1 x 1, 1 worker x 4 batches, 2 workers x 2."""
    whole = gates_after_one_step(one_batch, tmp_path / "a", 32, 1, 1)
    assert (whole - 0.3).abs().max() > 1e-3
    for name, sentences, freq, workers in (("b", 8, 4, 1), ("c", 8, 2, 2)):
        split = gates_after_one_step(one_batch, tmp_path / name, sentences, freq, workers)
        torch.testing.assert_close(split, whole, atol=1e-5, rtol=0)


def test_an_update_that_leaves_a_worker_a_batch_short(tmp_path):
    """Three batches on 2 workers x 2: the second worker's last share is empty."""
    data = small_data(tmp_path, 24)
    whole = gates_after_one_step(data, tmp_path / "a", 24, 1, 1)
    split = gates_after_one_step(data, tmp_path / "b", 8, 2, 2)
    torch.testing.assert_close(split, whole, atol=1e-5, rtol=0)


def test_two_workers_start_from_a_checkpoint_and_resume(tiny, tmp_path):
    """Only the first worker reads the file; the other gets it sent."""
    program = str(ROOT / "tests" / "helpers" / "fixed_noise_train.py")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for updates in (1, 2):
        args = training_arguments(
            tiny.data,
            tmp_path / "out",
            "--finetune-from-model",
            tiny.checkpoint,
            "--max-update",
            str(updates),
        )
        launch = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc_per_node=2",
            program,
        ]
        run = subprocess.run([*launch, *map(str, args)], capture_output=True, text=True, env=env, cwd=ROOT)
        assert run.returncode == 0, run.stderr[-3000:]
    state = checkpoints.load_checkpoint(tmp_path / "out" / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 2
    assert "Loaded checkpoint" in run.stderr + run.stdout


def test_hydra(tiny, tmp_path):
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "fairseq_cli.hydra_train",
            "--config-dir",
            str(ROOT / "scripts" / "config"),
            "--config-name",
            "head_pruning",
            f"common.user_dir={ROOT / 'fairseq_headprune'}",
            f"task.data={tiny.data}",
            f"checkpoint.finetune_from_model={tiny.checkpoint}",
            f"checkpoint.save_dir={tmp_path / 'out'}",
            "dataset.max_tokens=600",
            "dataset.valid_subset=test",
            "optimization.max_update=2",
            "common.cpu=true",
            f"hydra.run.dir={tmp_path / 'hydra'}",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    last = tmp_path / "out" / "checkpoint_last.pt"
    assert len(checkpoints.log_alphas(checkpoints.load_checkpoint(last))) == 6
    assert len(hypotheses(tiny.data, last)) == 24


@pytest.mark.parametrize(
    "more, message",
    [
        (["--gate-types", "enc-self,encoder"], "--gate-types"),
        (["--gate-stretch-low", "0.1"], "--gate-stretch-low"),
        (["--freeze", "everything"], "--freeze"),
        (["--gate-types", ""], "--gate-types is empty: write none"),
        (["--freeze", ""], "--freeze does not know ''"),
        (["--head-layout", "missing.json"], "--head-layout missing.json does not exist: name"),
        (["--head-layout", "folder"], "--head-layout folder is a folder: name a JSON file"),
        (["--head-layout", "letter.txt"], "letter.txt is not JSON .* give what"),
        (["--head-layout", "model"], "model is no text: name a JSON file, or a checkpoint called"),
        (["--l0-target-heads", "many"], "cannot read --l0-target-heads 'many'"),
        (["--l0-target-heads", "encoder=3"], "--l0-target-heads 'encoder=3': unknown"),
        (["--l0-target-heads", "3", "--gate-types", "none"], "--l0-target-heads asks for 3 heads"),
        (["--l0-lambda", "nan"], "--l0-lambda must be a number"),
        (
            ["--head-layout", '{"enc_self": [[0, 9], []], "dec_self": [[], []], "dec_enc": [[0], [0]]}'],
            "enc-self:0:9",
        ),
        (["--l0-target-heads", "25"], "asks for 25 heads"),
        (["--quant-noise-pq", "0.1"], "--quant-noise-pq"),
        (
            ["--finetune-from-model", "none.pt"],
            "checkpoint none.pt does not exist: name a file of fairseq-train",
        ),
        (["--finetune-from-model", "letter.txt"], "cannot read letter.txt as a checkpoint"),
        (["--cross-self-attention"], "--cross-self-attention"),
    ],
)
def test_bad_options_are_refused_by_name(tiny, tmp_path, monkeypatch, more, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "letter.txt").write_text("Dear reader")
    (tmp_path / "model").write_bytes(Path(tiny.checkpoint).read_bytes())
    with pytest.raises(UserError, match=message):
        train(tiny.data, tmp_path / "bad", "--max-update", "1", *more)
    assert not list((tmp_path / "bad").glob("*"))


def test_a_bad_option_ends_fairseq_train_with_one_sentence_and_status_2(tiny, tmp_path):
    args = training_arguments(tiny.data, tmp_path / "bad", "--gate-types", "encoder")
    run = subprocess.run([sys.executable, "-m", "fairseq_cli.train", *args], capture_output=True, text=True)
    assert run.returncode == 2 and "Traceback" not in run.stderr
    assert run.stderr.strip().splitlines()[-1].startswith("error: --gate-types: unknown attention type")


def test_remove_refuses_with_status_2(tiny, pruned, tmp_path, capsys):
    out = tmp_path / "out.pt"
    out.write_text("here")
    for args, word in (
        ([pruned, out], "exists already"),
        ([tmp_path / "none.pt", tmp_path / "x.pt"], "does not exist"),
        ([tiny.checkpoint, tmp_path / "x.pt", "--keep", "3"], "has no gates to choose by"),
        ([tiny.checkpoint, tmp_path / "x.pt", "--layout", '{"enc_self": []}'], "exactly the keys"),
    ):
        with pytest.raises(SystemExit) as caught:
            headprune("remove", *args)
        assert caught.value.code == 2
        message = capsys.readouterr().err
        assert word in message and message.count("\n") == 1
    assert out.read_text() == "here" and os.listdir(tmp_path) == ["out.pt"]
