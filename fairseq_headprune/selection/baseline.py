"""A checkpoint whose heads are to be scored, loaded as far as a criterion asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.units.layout import HeadLayout

Batch = Mapping[str, Tensor]
"""``src_tokens``, ``src_lengths``, ``prev_output_tokens``, ``target``, each [sentences, tokens]."""


@dataclass
class Baseline:
    """The file, and the sentences that scores are taken from: the first of a subset of the data."""

    checkpoint: str
    data: str | None = None
    sentences: int = 0
    seed: int = 1
    subset: str = "valid"

    @cached_property
    def state(self) -> dict[str, Any]:
        """The file's contents."""
        return checkpoints.load_checkpoint(self.checkpoint)

    @property
    def layout(self) -> HeadLayout:
        """The heads that act in evaluation."""
        return checkpoints.open_layout(self.state)

    @cached_property
    def _loaded(self):
        if not self.data:
            raise UserError("scores by this criterion are taken from sentences: give --data FOLDER")
        return checkpoints.load_model(self.checkpoint, self.data)

    @property
    def model(self):
        """The model, in evaluation."""
        return self._loaded[0]

    @property
    def eos(self) -> int:
        """End of sentence in the target dictionary."""
        return self._loaded[2].target_dictionary.eos()

    @cached_property
    def batches(self) -> list[Batch]:
        """The sentences."""
        return first_batches(self._loaded[2], self.subset, self.sentences)


def first_batches(task, subset: str, sentences: int, size: int = 20) -> list[Batch]:
    """The first sentences of a subset, in batches."""
    task.load_dataset(subset)
    dataset = task.dataset(subset)
    count = min(sentences, len(dataset))
    batches: list[Batch] = []
    for start in range(0, count, size):
        sample = dataset.collater([dataset[i] for i in range(start, min(start + size, count))])
        batches.append({**sample["net_input"], "target": sample["target"]})
    return batches
