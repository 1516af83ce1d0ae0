"""``headprune remove --by CRITERION --keep K`` on a tiny model without gates."""

import pytest

from fairseq_headprune import commands
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.selection.choose import chosen
from fairseq_headprune.selection.scores import score_heads
from tests.helpers import command_lines


@pytest.fixture(scope="module")
def data(tiny, tmp_path_factory):
    """The tiny data with a validation set."""
    root = tmp_path_factory.mktemp("by")
    command_lines.preprocess(
        *("--source-lang", "src", "--target-lang", "tgt"),
        *("--srcdict", tiny.data / "dict.src.txt", "--tgtdict", tiny.data / "dict.tgt.txt"),
        *("--validpref", tiny.text / "test", "--destdir", root / "data-bin"),
    )
    return root / "data-bin"


@pytest.mark.parametrize("by", ["gradient", "random"])
def test_the_heads_of_highest_score_stay(by, tiny, data, tmp_path, capsys):
    out = tmp_path / "small.pt"
    done = commands.main(
        ["remove", str(tiny.checkpoint), str(out), "--by", by, "--keep", "enc-self=3", "--data", str(data)]
    )
    assert done == 0 and "3 of 8" in capsys.readouterr().out
    state = checkpoints.load_checkpoint(tiny.checkpoint)
    wanted = chosen(state, score_heads(by, tiny.checkpoint, str(data)), {"enc_self": 3}, by)
    kept = checkpoints.open_layout(checkpoints.load_checkpoint(out))
    assert kept == wanted and kept.counts() == {"enc_self": 3, "dec_self": 8, "dec_enc": 8}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--keep", "3"], "has no gates to choose by: choose by another criterion, gradient, confidence"),
        (["--by", "gradient", "--keep", "3"], "give --data"),
        (["--by", "gradient"], "say how many heads with --keep"),
        (["--by", "luck", "--keep", "3"], "unknown criterion 'luck'"),
        (["--by", "random", "--keep", "99"], "--keep asks for 99 heads in all, the model has 24"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(options, message, tiny, tmp_path, capsys):
    out = tmp_path / "small.pt"
    with pytest.raises(SystemExit) as stop:
        commands.main(["remove", str(tiny.checkpoint), str(out), *options])
    assert stop.value.code == 2 and not out.exists()
    assert message in capsys.readouterr().err
