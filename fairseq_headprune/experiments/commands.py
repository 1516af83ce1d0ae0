"""The command lines that a sweep runs: all of them stock fairseq programs with --user-dir."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.experiments.points import SETTINGS, Point
from fairseq_headprune.models.architecture import flags as architecture_flags
from fairseq_headprune.translation import scoring

USER_DIR = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True)
class Budget:
    """How every point of a sweep is trained; ``extra`` is appended to every fairseq-train command."""

    lr: float = 0.0007
    settle_lr: float = 0.0003
    scratch_lr: float = 0.003
    scratch_warmup: int = 500
    max_tokens: int = 2048
    gate_lr_scale: float = 30.0
    l0_warmup_updates: int = 100
    label_smoothing: float = 0.1
    log_interval: int = 50
    extra: tuple[str, ...] = ()


def program(name: str) -> str:
    """Path of a fairseq program: the one that belongs to this Python, or the one on the path."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name


def _train(data: str, save_dir: Path, updates: int, lr: float, seed: int, budget: Budget) -> list[str]:
    """What all training commands share: a rate that falls to 0, so that a model is ready to be scored."""
    return [
        program("fairseq-train"),
        data,
        "--user-dir",
        USER_DIR,
        "--optimizer",
        "adam",
        "--adam-betas",
        "(0.9, 0.98)",
        "--clip-norm",
        "1.0",
        "--lr-scheduler",
        "polynomial_decay",
        "--lr",
        f"{lr:g}",
        "--total-num-update",
        str(updates),
        "--end-learning-rate",
        "0",
        "--max-tokens",
        str(budget.max_tokens),
        "--max-update",
        str(updates),
        "--seed",
        str(seed),
        "--save-dir",
        str(save_dir),
        "--no-epoch-checkpoints",
        # validated at the end only; saved now and then to go on from after an interruption
        "--validate-after-updates",
        str(updates),
        "--save-interval-updates",
        str(max(updates // 4, 50)),
        "--keep-interval-updates",
        "1",
        "--log-interval",
        str(budget.log_interval),
        "--log-format",
        "json",
        "--label-smoothing",
        f"{budget.label_smoothing:g}",
    ]


def finetune(
    point: Point, baseline: str, options: Mapping[str, Any], data: str, save_dir: Path, budget: Budget
) -> list[str]:
    """First stage: the baseline with gates, or for a control without."""
    setting = SETTINGS[point.setting]
    gated = point.method in ("l0", "l0-target")
    command = _train(data, save_dir, point.updates, budget.lr, point.seed, budget)
    command += ["--arch", "gated_transformer", *architecture_flags(options)]
    command += ["--gate-types", setting["gate_types"] if gated else "none"]
    command += ["--freeze", setting["freeze"], "--finetune-from-model", baseline]
    command += ["--criterion", "label_smoothed_cross_entropy_l0"]
    if gated:
        command += ["--gate-lr-scale", f"{budget.gate_lr_scale:g}"]
        command += ["--l0-warmup-updates", str(budget.l0_warmup_updates)]
        if point.method == "l0":
            command += ["--l0-lambda", f"{point.l0_lambda:g}"]
        else:
            command += ["--l0-target-heads", point.target]
    return command + list(budget.extra)


def settle(
    point: Point,
    model: str,
    layout: str,
    options: Mapping[str, Any],
    data: str,
    save_dir: Path,
    budget: Budget,
) -> list[str]:
    """Second stage: a short fine-tuning of the model whose heads are gone. Where it is the only stage
    it has the rate of the first."""
    lr = budget.lr if point.method == "criterion" else budget.settle_lr
    command = _train(data, save_dir, point.settle_updates, lr, point.seed, budget)
    command += ["--arch", "pruned_transformer", *architecture_flags(options)]
    command += ["--head-layout", layout, "--freeze", SETTINGS[point.setting]["freeze"]]
    command += ["--finetune-from-model", model, "--criterion", "label_smoothed_cross_entropy"]
    return command + list(budget.extra)


def scratch(
    point: Point, layout: str, options: Mapping[str, Any], data: str, save_dir: Path, budget: Budget
) -> list[str]:
    """Exactly the heads of ``layout``, all weights new; warm-up, then linear decay."""
    command = _train(data, save_dir, point.updates, budget.scratch_lr, point.seed, budget)
    command += ["--warmup-updates", str(min(budget.scratch_warmup, point.updates // 4))]
    command += ["--arch", "pruned_transformer", *architecture_flags(options)]
    command += ["--head-layout", layout, "--criterion", "label_smoothed_cross_entropy"]
    return command + list(budget.extra)


def translate(model: str, data: str, subset: str, beam: int, max_tokens: int) -> list[str]:
    """Beam search over one subset, pieces joined; hypotheses on standard output."""
    pieces = ["sentencepiece"] if scoring.splitting_of(data) == "sentencepiece" else []
    return [
        program("fairseq-generate"),
        data,
        "--user-dir",
        USER_DIR,
        "--path",
        model,
        "--gen-subset",
        subset,
        "--beam",
        str(beam),
        "--max-tokens",
        str(max_tokens),
        "--remove-bpe",
        *pieces,
        "--no-progress-bar",
    ]


def validate(model: str, data: str, max_tokens: int) -> list[str]:
    """Loss on the validation set, for models that were not trained here."""
    return [
        program("fairseq-validate"),
        data,
        "--user-dir",
        USER_DIR,
        "--path",
        model,
        "--task",
        "translation",
        "--valid-subset",
        "valid",
        "--max-tokens",
        str(max_tokens),
        "--log-format",
        "json",
    ]


def baseline_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """Model options of a baseline checkpoint; a pruned or gated one is described by its size alone."""
    return checkpoints.model_options(dict(state))


def environment(device: str, threads: int) -> dict[str, str]:
    """Environment of a command: one GPU if named, so many CPU threads, and our packages found."""
    path = os.pathsep.join(filter(None, [str(Path(USER_DIR).parent), os.environ.get("PYTHONPATH")]))
    variables = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONPATH=path)
    if device:
        variables["CUDA_VISIBLE_DEVICES"] = device
    return variables
