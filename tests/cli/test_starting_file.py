"""Training that starts from a checkpoint trains that model or nothing, whatever the flags say."""

import shlex

import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.commands import main
from fairseq_headprune.models.architecture import OURS
from tests.helpers import command_lines
from tests.helpers.command_lines import USER_DIR

FORMS = [
    *("--position-encoding", "marian", "--decoder-self", "ssru", "--decoder-start", "zero"),
    *("--output-bias", "--no-unk", "--activation-fn", "gelu", "--layernorm-embedding"),
]


def start(data, out, file, *more, arch="gated_transformer", option="--finetune-from-model"):
    """One update at a rate of 0, without any flag of the model but ``more``; the checkpoint."""
    args = [data, "--arch", arch, option, file, "--save-dir", out, "--optimizer", "sgd", "--lr", "0.0"]
    args += ["--criterion", "label_smoothed_cross_entropy_l0", "--l0-lambda", "0.1", "--max-tokens", "600"]
    args += ["--max-update", "1", "--disable-validation", "--cpu", "--log-format", "none", *USER_DIR]
    if option == "--restore-file":
        args += [f"--reset-{what}" for what in ("optimizer", "lr-scheduler", "dataloader", "meters")]
    command_lines.train(*args, *more)
    return out / "checkpoint_last.pt"


def same_function(data, *paths):
    """Whether two files score the references alike: what the models compute."""
    args = ["--gen-subset", "test", "--cpu", "--score-reference", *USER_DIR]
    printed = [command_lines.generate(data, "--path", path, *args).splitlines() for path in paths]
    scores = [
        [float(x) for line in sorted(lines) if line[:2] == "P-" for x in line.split()[1:]]
        for lines in printed
    ]
    return len(scores[0]) > 48 and scores[0] == pytest.approx(scores[1], abs=3e-4)


@pytest.fixture(scope="module")
def imported(tiny, tmp_path_factory):
    """A model of the forms that imported ones have."""
    return command_lines.tiny_model(tmp_path_factory.mktemp("forms"), tiny.data, "pruned_transformer", *FORMS)


@pytest.mark.parametrize("option", ["--finetune-from-model", "--restore-file"])
def test_sizes_that_nobody_gave_are_those_of_the_checkpoint(tiny, tmp_path, option):
    last = start(tiny.data, tmp_path / "out", tiny.checkpoint, option=option)
    assert same_function(tiny.data, last, tiny.checkpoint)
    assert checkpoints.model_options(checkpoints.load_checkpoint(last))["decoder_ffn_embed_dim"] == 32


def test_forms_of_imported_models_are_taken_over(tiny, imported, tmp_path):
    last = start(tiny.data, tmp_path / "out", imported)
    assert same_function(tiny.data, last, imported)
    there, here = (checkpoints.model_options(checkpoints.load_checkpoint(p)) for p in (imported, last))
    assert {name: here[name] for name in OURS} == {name: there[name] for name in OURS}
    again = start(tiny.data, tmp_path / "out", imported, *FORMS, "--max-update", "2")  # goes on
    assert checkpoints.load_checkpoint(again)["optimizer_history"][-1]["num_updates"] == 2


@pytest.mark.parametrize("option", ["--finetune-from-model", "--restore-file"])
@pytest.mark.parametrize(
    "more",
    [
        ["--encoder-attention-heads", "2"],
        ["--decoder-attention-heads", "8"],  # fairseq's default, typed
        ["--no-scale-embedding", "--position-encoding", "marian"],
    ],
    ids=" ".join,
)
def test_flags_of_another_model_are_refused(tiny, tmp_path, more, option):
    said = ", ".join(" ".join(more).replace(" --", "|--").split("|"))
    with pytest.raises(UserError, match=f"these options say {said}: leave them out"):
        start(tiny.data, tmp_path / "out", tiny.checkpoint, *more, option=option)
    assert not list((tmp_path / "out").iterdir())


def test_a_run_does_not_go_on_as_another_model(tiny, tmp_path):
    start(tiny.data, tmp_path / "out", tiny.checkpoint)
    with pytest.raises(UserError, match="checkpoint_last.pt was trained with --activation-fn relu"):
        start(tiny.data, tmp_path / "out", tiny.checkpoint, "--activation-fn", "gelu", "--max-update", "2")


def test_other_dictionaries_are_named(tiny, tmp_path):
    (tmp_path / "train.src").write_text("one two\n")
    (tmp_path / "train.tgt").write_text("two_ one_\n")
    command_lines.preprocess(
        *("--source-lang", "src", "--target-lang", "tgt", "--trainpref", tmp_path / "train"),
        *("--srcdict", tiny.data / "dict.src.txt", "--destdir", tmp_path / "bin"),
    )
    with pytest.raises(UserError, match=r"dict.tgt.txt of the data has 8 entries .* 24 for the target"):
        start(tmp_path / "bin", tmp_path / "out", tiny.checkpoint)


def test_gates_need_a_place_and_heads_are_those_of_the_file(tiny, tmp_path):
    gated = start(tiny.data, tmp_path / "gated", tiny.checkpoint)
    with pytest.raises(UserError, match="has gates on dec-enc, dec-self, enc-self and --gate-types none"):
        start(tiny.data, tmp_path / "out", gated, arch="pruned_transformer")
    small, fewer = (
        tmp_path / "small.pt",
        '{"enc_self": [[0], [1]], "dec_self": [[], [1]], "dec_enc": [[2], [3]]}',
    )
    assert main(["remove", str(gated), str(small), "--layout", fewer]) == 0
    last = start(tiny.data, tmp_path / "on", small)
    assert checkpoints.existing_layout(checkpoints.load_checkpoint(last)).to_json() == fewer
    assert start(tiny.data, tmp_path / "same", small, "--head-layout", fewer)
    for file in (small, tiny.checkpoint):
        with pytest.raises(UserError, match="--head-layout asks for other heads"):
            start(tiny.data, tmp_path / "out", file, "--head-layout", fewer.replace("[2]", "[0]"))


def test_flags_to_copy(tiny, imported, tmp_path, capsys):
    capsys.readouterr()
    assert main(["layout", "--flags", str(imported)]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert {"--decoder-self", "ssru", "--output-bias", "--encoder-layers", "--activation-fn"} < set(words)
    last = start(tiny.data, tmp_path / "out", imported, *words)
    model = torch.load(last, weights_only=True)["model"]
    for name, value in torch.load(imported, weights_only=True)["model"].items():
        assert torch.equal(value, model[name]), name
