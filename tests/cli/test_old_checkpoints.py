"""Every form of file that fairseq wrote since 2017 is read, translated with, pruned and trained further."""

import subprocess
import sys

import pytest
import torch

from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints.configuration import configuration
from fairseq_headprune.commands import main
from fairseq_headprune.units.layout import HeadLayout
from tests.cli.test_kept_layers import LAYOUT, score
from tests.cli.test_starting_file import start
from tests.helpers.command_lines import USER_DIR
from tests.helpers.old_files import YEARS, old_file


@pytest.mark.parametrize("year", YEARS)
def test_an_old_file_is_the_model_that_it_was(tiny, tmp_path, capsys, year):
    path = old_file(tiny.checkpoint, tmp_path / "old.pt", year)
    near = dict(abs=2e-2 if year == 2019 else 3e-4)  # half precision
    state = checkpoints.load_checkpoint(path)
    config = configuration(state)
    assert config["task"]["data"] == str(tiny.data) and config["optimization"]["lr"] == [0.25]
    assert checkpoints.existing_layout(state) == HeadLayout.full(2, 4, 2, 4)
    checkpoints.load_model(path)
    assert score(tiny.data, path) == pytest.approx(score(tiny.data, tiny.checkpoint), **near)

    capsys.readouterr()
    assert main(["layout", str(path), "--flags"]) == 0
    assert "--encoder-ffn-embed-dim 32" in capsys.readouterr().out
    for name, source in (("small.pt", path), ("same.pt", tiny.checkpoint)):
        assert main(["remove", str(source), str(tmp_path / name), "--layout", LAYOUT.to_json()]) == 0
    assert (
        main(["remove", str(path), str(tmp_path / "dense.pt"), "--layout", LAYOUT.to_json(), "--dense"]) == 0
    )
    expected = score(tiny.data, tmp_path / "same.pt")
    assert score(tiny.data, tmp_path / "small.pt") == pytest.approx(expected, **near)
    assert score(tiny.data, tmp_path / "dense.pt") == pytest.approx(expected, **near)

    gated = start(tiny.data, tmp_path / "out", path)
    assert score(tiny.data, gated) == pytest.approx(score(tiny.data, path), **near)


def test_meters_are_read_as_data_alone(tiny, tmp_path):
    path = old_file(tiny.checkpoint, tmp_path / "old.pt", 2018)
    assert b"fairseq.meters" in path.read_bytes()
    meter = torch.load(path, weights_only=True)["extra_state"]["train_meters"]["train_loss"]
    assert (meter.sum, meter.count) == (7.5, 3)


def test_a_rate_that_is_a_whole_number(tiny, tmp_path):
    path = old_file(tiny.checkpoint, tmp_path / "old.pt", 2018)
    state = torch.load(path, weights_only=True)
    state["args"].lr = 1
    torch.save(state, path)
    assert configuration(checkpoints.load_checkpoint(path))["optimization"]["lr"] == [1.0]
    checkpoints.load_model(path)


def test_fairseq_validate_as_the_guide_has_it(tiny, tmp_path):
    assert (
        main(["remove", str(tiny.checkpoint), str(tmp_path / "small.pt"), "--layout", LAYOUT.to_json()]) == 0
    )
    command = [sys.executable, "-m", "fairseq_cli.validate", str(tiny.data), *USER_DIR]
    command += [
        "--path",
        str(tmp_path / "small.pt"),
        "--valid-subset",
        "test",
        "--max-tokens",
        "600",
        "--cpu",
    ]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert "nll_loss" in run.stdout
