"""fairseq in double precision: what is compared in double has to be computed in it."""

import contextlib
from unittest import mock

import torch
from fairseq import utils
from fairseq.modules import multihead_attention


@contextlib.contextmanager
def softmax_in_double():
    """Inside, fairseq's (log-)softmax keeps the precision of its input.

    It casts to float32 otherwise, a model of doubles included, and how that rounds depends on the
    processor's kernels and on the shape of the batch.
    """

    def softmax(x, dim, onnx_trace=False):
        return torch.softmax(x, dim)

    def log_softmax(x, dim, onnx_trace=False):
        return torch.log_softmax(x, dim)

    with mock.patch.object(utils, "softmax", softmax), mock.patch.object(utils, "log_softmax", log_softmax):
        assert multihead_attention.utils is utils  # it looks the functions up there
        yield
