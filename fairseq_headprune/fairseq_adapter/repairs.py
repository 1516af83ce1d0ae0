"""What the versions of torch and fairseq in use need: one function a fault, each with its reason."""

import argparse
import functools
import sys


def allow_fairseq_checkpoints():
    """torch >= 2.6 unpickles weights only, and fairseq's checkpoints carry their configuration.

    The few classes it consists of hold plain values and run nothing, so they are allow-listed; the
    protection itself stays on. (fairseq issue 5610)
    """
    import torch

    if not hasattr(torch.serialization, "add_safe_globals"):
        return
    import collections
    import enum
    import typing

    import numpy
    import omegaconf
    from omegaconf.base import ContainerMetadata, Metadata
    from omegaconf.nodes import (
        AnyNode,
        BooleanNode,
        BytesNode,
        EnumNode,
        FloatNode,
        IntegerNode,
        StringNode,
    )

    safe = [
        argparse.Namespace,
        omegaconf.DictConfig,
        omegaconf.ListConfig,
        ContainerMetadata,
        Metadata,
        AnyNode,
        BooleanNode,
        BytesNode,
        EnumNode,
        FloatNode,
        IntegerNode,
        StringNode,
        typing.Any,
        typing.Optional,
        typing.Union,
        collections.OrderedDict,
        collections.defaultdict,
        enum.Enum,
        dict,
        list,
        tuple,
        set,
        int,
        float,
        str,
        bool,
        numpy.dtype,
        numpy.ndarray,
        numpy.float64,
        numpy.float32,
        numpy.int64,
        numpy.dtypes.Float64DType,
        numpy.dtypes.Float32DType,
        numpy.dtypes.Int64DType,
    ]
    try:
        from numpy._core import multiarray
    except ImportError:  # numpy 1
        from numpy.core import multiarray
    safe += [multiarray.scalar, multiarray._reconstruct]
    from fairseq.dataclass import constants
    from fairseq.distributed import utils as distributed_utils
    from fairseq.file_io import PathManager  # noqa: F401  (fairseq must be importable here)
    from fairseq.models.transformer import transformer_config

    safe += [
        value
        for value in vars(constants).values()
        if isinstance(value, type) and issubclass(value, enum.Enum)
    ]
    safe += [
        transformer_config.EncDecBaseConfig,
        transformer_config.DecoderConfig,
        transformer_config.QuantNoiseConfig,
        transformer_config.TransformerConfig,
    ]
    safe += _meters()
    # an index; how the first of several workers sends the checkpoint that it loaded to the others
    safe.append(distributed_utils._TensorPlaceholder)
    torch.serialization.add_safe_globals(safe)


def _meters() -> list:
    """The averages that trainers kept in a file until 2019, under the name that their module had then too."""
    from fairseq.logging import meters

    kinds = [meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter]
    return [*kinds, *((kind, f"fairseq.meters.{kind.__name__}") for kind in kinds)]


def keep_every_sentence():
    """fairseq drops the last batch when its size is no multiple of --required-batch-size-multiple.

    That loses sentences, the longest ones, in training, validation and generation alike. The
    dropped batch fits the limits, so it is put back.
    """
    from fairseq.data import data_utils

    if getattr(data_utils.batch_by_size, "keeps_every_sentence", False):
        return
    original = data_utils.batch_by_size

    @functools.wraps(original)
    def batch_by_size(indices, *args, **kwargs):
        import numpy as np

        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        if len(indices) == 0:
            return []  # fairseq looks at the last batch and there is none
        batches = list(original(indices, *args, **kwargs))
        kept = sum(len(batch) for batch in batches)
        if kept < len(indices):
            # batches are consecutive runs of indices and only the last run can be missing
            batches.append(np.asarray(indices[kept:], dtype=np.int64))
        return batches

    batch_by_size.keeps_every_sentence = True
    data_utils.batch_by_size = batch_by_size


def report_user_errors():
    """fairseq's command lines end with a traceback; a mistake of the user deserves one sentence.

    A UserError that nobody catches is printed as such, with exit status 2. In its own programs Ctrl-C,
    and what their own words say or a disk does, are no reason for a traceback either.
    """
    from fairseq_headprune.base.errors import UserError, exit_interrupted, exit_with
    from fairseq_headprune.fairseq_adapter.plain_words import in_fairseq_program, sentence_for

    previous = sys.excepthook
    if getattr(previous, "reports_user_errors", False):
        return

    def hook(kind, error, traceback):
        if isinstance(error, UserError):
            exit_with(error)
        if in_fairseq_program(traceback):
            if isinstance(error, KeyboardInterrupt):
                exit_interrupted("the same command goes on from what it has saved")
            words = sentence_for(error)
            if words:
                exit_with(UserError(words))
        previous(kind, error, traceback)

    hook.reports_user_errors = True
    sys.excepthook = hook


def report_bad_checkpoints():
    """What fairseq's programs say of a --path or --finetune-from-model that is missing, truncated or of
    something else comes from the depths of torch ("Invalid argument", "KeyError: 101") and ends in a
    traceback. Look closer once they failed.
    """
    from fairseq import checkpoint_utils

    def explain(name, files_of):
        original = getattr(checkpoint_utils, name)
        if getattr(original, "reports_bad_checkpoints", False):
            return

        @functools.wraps(original)
        def load(first, *args, **kwargs):
            try:
                return original(first, *args, **kwargs)
            except Exception as error:
                from fairseq_headprune.base.errors import UserError
                from fairseq_headprune.checkpoints.reading import explain_failure

                if not isinstance(error, UserError):
                    explain_failure(files_of(first), error)
                raise

        load.reports_bad_checkpoints = True
        setattr(checkpoint_utils, name, load)

    explain("load_model_ensemble_and_task", lambda filenames: filenames)
    explain("load_checkpoint", _starting_files)


def _starting_files(cfg):
    """The files that fairseq-train may start from with these options, if they exist."""
    import os

    last = cfg.restore_file == "checkpoint_last.pt"
    named = [os.path.join(cfg.save_dir, cfg.restore_file) if last else cfg.restore_file]
    named = [path for path in named if path and os.path.exists(path)]
    return named + ([cfg.finetune_from_model] if cfg.finetune_from_model else [])


def guard_configurations():
    """fairseq builds whatever a checkpoint's configuration names and evaluates some of its options as
    Python. Every file that it reads passes through its upgrade of old ones, where ours is checked first.
    """
    from fairseq import checkpoint_utils

    original = checkpoint_utils._upgrade_state_dict
    if getattr(original, "guards_configurations", False):
        return

    @functools.wraps(original)
    def upgrade(state):
        from fairseq_headprune.checkpoints.guard import check_configuration

        check_configuration(state)
        rate = getattr(state.get("args"), "lr", None)
        if isinstance(rate, int):  # fairseq's upgrade knows floats and lists
            state["args"].lr = [float(rate)]
        return original(state)

    upgrade.guards_configurations = True
    checkpoint_utils._upgrade_state_dict = upgrade


def torchrun_without_gpu():
    """On a machine without GPUs fairseq does not see that torchrun started several workers.

    Each would train alone and overwrite the others' checkpoints; told the number of workers, it
    divides by the number of GPUs. Gloo and fairseq's own gradient reduction work on CPUs.
    """
    import os

    import torch
    from fairseq.distributed import utils as distributed

    original = distributed.infer_init_method
    if getattr(original, "knows_torchrun", False):
        return

    @functools.wraps(original)
    def infer_init_method(cfg, force_distributed=False):
        workers = int(os.environ.get("WORLD_SIZE", "1"))
        launched = all(k in os.environ for k in ("MASTER_ADDR", "MASTER_PORT", "RANK"))
        if torch.cuda.is_available() or cfg.distributed_init_method or not launched or workers == 1:
            return original(cfg, force_distributed)
        cfg.distributed_init_method = "env://"
        cfg.distributed_world_size = workers
        cfg.distributed_rank = int(os.environ["RANK"])
        cfg.device_id = 0
        cfg.distributed_no_spawn = True
        cfg.distributed_backend = "gloo"
        cfg.ddp_backend = "legacy_ddp"

    infer_init_method.knows_torchrun = True
    distributed.infer_init_method = infer_init_method


def without_dummies(samples):
    """The samples of one update without its empty ones; all of them if there is nothing else."""
    return [sample for sample in samples if sample is not None and len(sample) > 0] or samples


def count_what_precedes_a_dummy():
    """An epoch's last update may have fewer batches than workers x --update-freq.

    fairseq fills up with a dummy batch whose gradient is zero, and where that is a worker's last one,
    forgets the target tokens of the batches before it: their gradients are divided by too few. A
    worker that has a real batch does not need the dummy. (FSDP communicates in every backward pass
    and TPUs count passes: there it stays.)
    """
    from fairseq.trainer import Trainer

    original = Trainer.train_step
    if getattr(original, "leaves_dummies_out", False):
        return

    @functools.wraps(original)
    def train_step(self, samples, *args, **kwargs):
        if not (self.is_fsdp or self.tpu):
            samples = without_dummies(samples)
        return original(self, samples, *args, **kwargs)

    train_step.leaves_dummies_out = True
    Trainer.train_step = train_step


def apply():
    """All of the above, of command lines and of what training starts from; safe to call twice."""
    from fairseq_headprune.fairseq_adapter import command_lines, early_checks, starting_point

    command_lines.remember_command_lines()
    command_lines.help_with_every_option()
    command_lines.validate_without_a_task()
    command_lines.refuse_other_tasks()
    early_checks.check_command_lines()
    starting_point.agree_with_starting_files()
    count_what_precedes_a_dummy()
    torchrun_without_gpu()
    allow_fairseq_checkpoints()
    keep_every_sentence()
    report_user_errors()
    report_bad_checkpoints()
    guard_configurations()
