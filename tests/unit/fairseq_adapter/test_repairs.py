"""No sentence is lost in batches, and fairseq's own checkpoints load with torch's protection on."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.trainer import Trainer

import fairseq_headprune  # noqa: F401
from fairseq_headprune.fairseq_adapter import repairs as compat


@pytest.mark.parametrize("multiple", [1, 8, 16])
@pytest.mark.parametrize("size", range(0, 21))
@pytest.mark.parametrize("limits", [{"max_tokens": 40}, {"max_sentences": 6}, {"max_tokens": 10**6}])
def test_every_sentence_is_in_exactly_one_batch(size, multiple, limits):
    lengths = np.arange(1, size + 1)
    indices = np.arange(size)[::-1].copy()
    for vector in (None, lengths):
        batches = data_utils.batch_by_size(
            indices,
            num_tokens_fn=lambda i: int(lengths[i]),
            num_tokens_vec=vector if vector is None else vector[indices],
            required_batch_size_multiple=multiple,
            **limits,
        )
        assert sorted(int(i) for batch in batches for i in batch) == list(range(size))
        for batch in batches:
            if "max_sentences" in limits:
                assert len(batch) <= limits["max_sentences"]
            if len(batch) > 1 and "max_tokens" in limits:
                assert len(batch) * max(lengths[i] for i in batch) <= limits["max_tokens"]


def test_repairs_may_be_applied_twice():
    before = data_utils.batch_by_size, Trainer.train_step
    compat.apply()
    assert (data_utils.batch_by_size, Trainer.train_step) == before


@pytest.mark.parametrize(
    "samples, left",
    [
        ([{"id": 1}, {}], [{"id": 1}]),
        ([None, {"id": 1}, []], [{"id": 1}]),
        ([{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 2}]),
        ([{}, {}], [{}, {}]),  # fairseq's dummy batches keep this worker in step
    ],
)
def test_only_a_worker_without_any_batch_needs_a_dummy(samples, left):
    assert compat.without_dummies(samples) == left


def test_a_fairseq_checkpoint_loads_and_code_in_one_does_not(tmp_path, shared):
    path = shared / "models" / "multi30k-en-de" / "checkpoint_best.pt"
    assert "model" in torch.load(path, weights_only=True)

    class Harmful:
        def __reduce__(self):
            return (print, ("code ran",))

    torch.save({"model": Harmful()}, tmp_path / "bad.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "bad.pt")


def test_a_mistake_of_the_user_ends_with_one_sentence_and_status_2():
    program = (
        "import fairseq_headprune\nfairseq_headprune.register()\n"
        "from fairseq_headprune.base.errors import UserError\n"
        "raise UserError('--option is wrong: use another')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stderr.strip().splitlines()[-1] == "error: --option is wrong: use another"
    assert "Traceback" not in run.stderr
