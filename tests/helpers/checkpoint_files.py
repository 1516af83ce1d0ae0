"""Checkpoint files of toy models, as fairseq's trainer writes them."""

from argparse import Namespace

import torch
from fairseq.dataclass.configs import FairseqConfig
from omegaconf import OmegaConf

from fairseq_headprune.checkpoints.configuration import plain


def configuration(model_options, arch):
    """A whole configuration with these flat model options."""
    cfg = plain(OmegaConf.to_container(OmegaConf.structured(FairseqConfig), enum_to_str=True))
    for name in ("task", "criterion", "optimizer", "lr_scheduler", "bpe", "tokenizer", "scoring"):
        cfg[name] = None
    cfg["task"] = {"_name": "translation", "data": "data-bin", "source_lang": "a", "target_lang": "b"}
    cfg["criterion"] = {"_name": "label_smoothed_cross_entropy_l0", "l0_lambda": 0.1, "label_smoothing": 0.1}
    cfg["model"] = {**model_options, "_name": arch}
    return cfg


def write(model, path, arch):
    """Save ``model`` (ours or stock) to ``path``; stock models keep an argparse namespace."""
    if arch == "transformer":
        options = Namespace(**{**vars(model.flat_options), "arch": arch, "_name": arch})
        cfg = {**configuration({}, arch), "model": options}
    else:
        options = plain(model.flat_options)
        cfg = configuration(options, arch)
    torch.save(
        {
            "cfg": cfg,
            "args": None,
            "model": model.state_dict(),
            "criterion": None,
            "optimizer_history": [
                {"criterion_name": "X", "optimizer_name": "Y", "lr_scheduler_state": {}, "num_updates": 7}
            ],
            "last_optimizer_state": {"big": torch.zeros(1000)},
            "task_state": {},
            "extra_state": {"train_iterator": {"epoch": 3}},
        },
        path,
    )
    return path


def load(path, words=12):
    """The model of a checkpoint written above or by removal, rebuilt from the file alone."""
    from fairseq import models

    from fairseq_headprune.checkpoints import reading as checkpoints
    from tests.helpers.our_models import task

    state = torch.load(path, weights_only=True)
    cfg = OmegaConf.create({"model": checkpoints.model_options(state)})
    model = models.build_model(cfg.model, task(words), from_checkpoint=True)
    model.load_state_dict(state["model"], strict=True)
    return model.eval()
