"""What fairseq's programs could know from their command line alone and find out later, or never say."""

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import check_file, check_folder

TASKS = ("translation", "translation_headprune")
LOGGERS = {"tensorboard_logdir": ("tensorboard", "tensorboardX"), "wandb_project": ("wandb",)}
"""Option -> packages any of which serves it; without, fairseq trains for days and logs nothing there."""


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def check_arguments(args: Any, gpu: bool, installed: Callable[[str], bool] = _installed) -> None:
    """UserError, by the option's name, for what cannot go well. ``args``: what a program's parser gave."""
    get = functools.partial(_get, args)
    training = hasattr(args, "max_update")
    if get("task") in TASKS and get("data"):
        _check_data(str(get("data")))
    if get("input") not in (None, "-") and hasattr(args, "buffer_size") and not os.path.isfile(get("input")):
        raise UserError(f"--input {get('input')} is not a file: name a text file, or leave it out to type")
    if training:
        _check_precision(get, gpu)
        if not get("no_save"):
            check_folder(get("save_dir") or ".", "--save-dir")
    if get("results_path"):
        check_folder(get("results_path"), "--results-path")
    if get("relevance_table"):
        check_file(get("relevance_table"), "--relevance-table", make=False)
    for option, packages in LOGGERS.items():
        if get(option) and not any(map(installed, packages)):
            name = "--" + option.replace("_", "-")
            raise UserError(
                f"{name} needs a package that is not installed: pip install {packages[0]}, or leave it out"
            )


def _get(args: Any, name: str) -> Any:
    return getattr(args, name, None)


def _check_data(paths: str) -> None:
    if "://" in paths:
        return  # fairseq reads it by another library
    folder = paths.split(os.pathsep)[0]  # further ones hold shards
    if not os.path.isdir(folder):
        raise UserError(f"the folder {folder} does not exist: name the one that fairseq-preprocess wrote")
    if not any(name.startswith("dict.") and name.endswith(".txt") for name in os.listdir(folder)):
        raise UserError(f"{folder} holds no binarised data: name the folder that fairseq-preprocess wrote")


def _check_input(path: str) -> None:
    if path != "-" and (os.path.isdir(path) or not os.path.exists(path)):
        raise UserError(f"--input {path} is not a file: name a text file, or leave it out to type")


def _check_precision(get, gpu: bool) -> None:
    if gpu and not get("cpu"):
        return
    for option in ("fp16", "bf16"):
        # the memory-efficient kinds set the plain ones
        if get(option) and not (option == "fp16" and get("memory_efficient_fp16")):
            why = "--cpu is given" if get("cpu") else "there is none here"
            raise UserError(f"--{option} trains on GPUs only, and {why}: leave --{option} out")


def check_command_lines():
    """Before a program does anything, and with the words of its options."""
    import torch
    from fairseq import options

    original = options.parse_args_and_arch
    if getattr(original, "checks_arguments", False):
        return

    @functools.wraps(original)
    def parse_args_and_arch(*args, **kwargs):
        parsed = original(*args, **kwargs)
        check_arguments(parsed[0] if isinstance(parsed, tuple) else parsed, torch.cuda.is_available())
        return parsed

    parse_args_and_arch.checks_arguments = True
    options.parse_args_and_arch = parse_args_and_arch
