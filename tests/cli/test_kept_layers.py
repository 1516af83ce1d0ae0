"""Layers kept by options and by --model-overrides, through fairseq's own programs."""

import subprocess
import sys

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.commands import main
from fairseq_headprune.units.layout import HeadLayout
from tests.cli.test_starting_file import start
from tests.helpers import command_lines
from tests.helpers.command_lines import USER_DIR

LAYOUT = HeadLayout(((0, 3), (2,)), ((1,), (0, 1, 2)), ((0, 1, 3), (2, 3)))
SCORE = ["--gen-subset", "test", "--cpu", "--score-reference", "--required-batch-size-multiple", "1"]


def scores(printed):
    return [float(x) for line in sorted(printed.splitlines()) if line[:2] == "P-" for x in line.split()[1:]]


def score(data, path, *more):
    return scores(command_lines.generate(data, "--path", path, *SCORE, *more, *USER_DIR))


def test_overrides_act_on_pruned_and_dense_files_alike(tiny, tmp_path):
    paths = [tmp_path / "small.pt", tmp_path / "dense.pt"]
    for path, more in zip(paths, ([], ["--dense"])):
        assert main(["remove", str(tiny.checkpoint), str(path), "--layout", LAYOUT.to_json(), *more]) == 0
    override = ["--model-overrides", "{'encoder_layers_to_keep': '1', 'decoder_layers_to_keep': '0'}"]
    small, dense = (score(tiny.data, path, *override) for path in paths)
    assert len(small) > 48 and small == pytest.approx(dense, abs=3e-4)
    assert small != pytest.approx(score(tiny.data, paths[0]), abs=1e-2)
    command = [sys.executable, "-m", "fairseq_cli.generate", tiny.data, "--path", paths[1], *SCORE, *override]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-2000:]  # stock fairseq
    assert scores(run.stdout) == pytest.approx(dense, abs=3e-4)
    with pytest.raises(UserError, match="--encoder-layers-to-keep names layer 2, and the last of the 2 is 1"):
        score(tiny.data, paths[0], "--model-overrides", "{'encoder_layers_to_keep': '0,2'}")


def test_training_with_layers_kept_writes_a_model_of_these(tiny, tmp_path):
    small = tmp_path / "small.pt"
    assert main(["remove", str(tiny.checkpoint), str(small), "--layout", LAYOUT.to_json()]) == 0
    keep = ["--encoder-layers-to-keep", "1", "--encoder-layers", "2"]
    for updates in ("1", "2"):  # the second time it goes on
        last = start(tiny.data, tmp_path / "out", small, *keep, "--max-update", updates)
    found = checkpoints.existing_layout(checkpoints.load_checkpoint(last))
    assert found == HeadLayout(LAYOUT.enc_self[1:], LAYOUT.dec_self, LAYOUT.dec_enc)
    override = ["--model-overrides", "{'encoder_layers_to_keep': '1'}"]
    assert score(tiny.data, last) == pytest.approx(score(tiny.data, small, *override), abs=3e-4)
