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
    from fairseq.file_io import PathManager  # noqa: F401  (fairseq must be importable here)
    from fairseq.dataclass import constants
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
    torch.serialization.add_safe_globals(safe)


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

    A UserError that nobody catches is printed as such, with exit status 2.
    """
    from fairseq_headprune.errors import UserError, exit_with

    previous = sys.excepthook
    if getattr(previous, "reports_user_errors", False):
        return

    def hook(kind, error, traceback):
        if isinstance(error, UserError):
            exit_with(error)
        previous(kind, error, traceback)

    hook.reports_user_errors = True
    sys.excepthook = hook


def apply():
    """All of the above; safe to call twice."""
    allow_fairseq_checkpoints()
    keep_every_sentence()
    report_user_errors()
