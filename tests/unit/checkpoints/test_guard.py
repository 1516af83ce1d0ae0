"""No option of a file is run as a program, whichever way it is read, and old files still load."""

from argparse import Namespace
from typing import Any, List, Optional

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading
from fairseq_headprune.checkpoints.guard import check_configuration, fits
from fairseq_headprune.fairseq_adapter import user_dir  # noqa: F401
from tests.helpers import checkpoint_files, our_models


@pytest.mark.parametrize(
    "kind, good, bad",
    [
        (int, [3, None, 3.0, "${model.x}"], ["3 * 1", 3.5, [3], "3"]),
        (float, [0, 0.5, None], ["0.5", [0.5]]),
        (bool, [True, 0, "True"], ["f()", [True]]),
        (str, ["x", "[(1, f())]", 3], [["x"], {"a": 1}]),
        (Optional[str], [None, "x"], [["x"]]),
        (Optional[List[int]], [None, [1, 2], "[1, 2]", 5], ["[f()]", ["a"], "(" * 2000]),
        (List[float], [0.1, [0.1, 1]], ["f()"]),
        (Any, ["x", [1], None], []),
    ],
)
def test_types_of_options(kind, good, bad):
    for value in good:
        assert fits(value, kind), value
    for value in bad:
        assert not fits(value, kind), value


def test_the_folder_of_data_was_once_a_list():
    assert fits(["data-bin"], str, "data") and not fits([["data-bin"]], str, "data")


def attack(section, name, value):
    def change(cfg, target):
        text = value.format(target)
        if section == "model" and isinstance(cfg["model"], Namespace):
            setattr(cfg["model"], name, text)
        else:
            cfg[section] = {**(cfg[section] or {}), name: text}

    return change


def fconv(cfg, target):
    cfg["model"] = {"_name": "fconv", "encoder_layers": f"[(8, 3, open('{target}', 'w') and 1)]"}


ATTACKS = {
    "fconv": (fconv, "'fconv'"),
    "cutoff": (
        attack("model", "adaptive_softmax_cutoff", "[open('{}', 'w') and 1]"),
        "adaptive_softmax_cutoff",
    ),
    "xformers": (attack("model", "encoder_xformers_att_config", "open('{}', 'w') and {{}}"), "xformers"),
    "number": (attack("model", "encoder_layers", "open('{}', 'w') and 2"), "encoder_layers"),
    "task": (attack("task", "_name", "multilingual_translation"), "'multilingual_translation'"),
    "padding": (attack("task", "left_pad_source", "open('{}', 'w')"), "left_pad_source"),
    "criterion": (attack("criterion", "_name", "ctc"), "'ctc'"),
    "smoothing": (attack("criterion", "label_smoothing", "open('{}', 'w')"), "label_smoothing"),
    "betas": (
        lambda cfg, t: cfg.update(optimizer={"_name": "adam", "adam_betas": f"open('{t}', 'w')"}),
        "adam_betas",
    ),
    "bpe": (
        lambda cfg, t: cfg.update(bpe={"_name": "sentencepiece", "sentencepiece_enable_sampling": "f()"}),
        "bpe",
    ),
}


@pytest.mark.parametrize("arch", ["transformer", "gated_transformer"])
@pytest.mark.parametrize("change, word", ATTACKS.values(), ids=list(ATTACKS))
def test_an_option_that_would_run_is_refused_by_every_reader(tmp_path, arch, change, word):
    model = our_models.stock() if arch == "transformer" else our_models.gated()
    if arch != "transformer":
        model.flat_options = our_models.config()
    path, ran = checkpoint_files.write(model, tmp_path / "m.pt", arch), tmp_path / "ran"
    state = torch.load(path, weights_only=True)
    change(state["cfg"], ran)
    torch.save(state, path)
    readers = [reading.load_checkpoint, reading.load_model, checkpoint_utils.load_checkpoint_to_cpu]
    readers.append(lambda p: checkpoint_utils.load_model_ensemble_and_task([str(p)]))
    for read in readers:
        with pytest.raises(UserError, match=word):
            read(str(path))
    assert not ran.exists()


def test_flat_options_of_old_files_are_held_to_the_same(tmp_path):
    good = Namespace(
        arch="transformer_iwslt_de_en",
        task="translation",
        data=["data-bin"],
        lr=0.1,
        criterion="cross_entropy",
        left_pad_source="True",
        encoder_layers=6,
        optimizer="adam",
    )
    check_configuration({"args": good, "cfg": None})
    for name, value in (
        ("arch", "lstm"),
        ("encoder_layers", "f()"),
        ("left_pad_source", "f()"),
        ("task", "denoising"),
    ):
        with pytest.raises(UserError, match=f"'{value}'|{name}"):
            check_configuration({"args": Namespace(**{**vars(good), name: value}), "cfg": None})
