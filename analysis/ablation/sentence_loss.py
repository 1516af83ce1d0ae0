"""The loss of a model sentence by sentence, computed so that many variants of it are cheap."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from fairseq import utils
from torch import Tensor, nn

from fairseq_headprune.analysis.ablation.heads_off import heads_off
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import Head


class Losses(NamedTuple):
    """Per sentence, in the order of the data set."""

    nats: np.ndarray
    """Sum of -log p over the target tokens, EOS counted. float64 ``[sentences]``"""
    tokens: np.ndarray
    """Target tokens, EOS counted. int64 ``[sentences]``"""

    def mean(self) -> float:
        """Cross-entropy in nats per target token, without label smoothing."""
        return float(self.nats.sum() / self.tokens.sum())


def load_batches(
    task, model, subset: str, max_tokens: int, sentences: int | None = None, only: int | None = None
) -> list[dict]:
    """Batches of a subset of the task's data, every sentence in exactly one of them.

    ``sentences``: take only so many from the start; ``only``: the sentence of this number alone. UserError
    for a subset that is not there or has a sentence that the model or a batch cannot take.
    """
    try:
        task.load_dataset(subset)
    except FileNotFoundError as error:
        raise UserError(f"--subset {subset}: {error}") from None
    data = task.dataset(subset)
    indices = np.arange(len(data) if sentences is None else min(sentences, len(data)))
    if only is not None:
        if only >= len(data):
            raise UserError(f"--sentence {only}: --subset {subset} has {len(data)} sentences, counted from 0")
        indices = np.array([only])
    limit = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    indices = indices[np.argsort(data.src_sizes[indices], kind="stable")]
    kept, overlong = data.filter_indices_by_size(indices, limit)
    if len(overlong):
        raise UserError(f"--subset {subset}: sentence {overlong[0]} is longer than the model takes {limit}")
    longest = max((data.num_tokens(int(i)) for i in kept), default=0)
    if longest > max_tokens:
        raise UserError(
            f"--max-tokens {max_tokens} is less than the longest sentence of --subset {subset} has: give "
            f"{longest} or more"
        )
    groups = data.batch_by_size(kept, max_tokens=max_tokens, required_batch_size_multiple=1)
    return [data.collater([data[int(i)] for i in group]) for group in groups]


class Scorer:
    """Scores variants of one model on the same batches.

    What the encoder makes of them is kept (sentences x source tokens x width numbers), since two
    thirds of all heads are in the decoder and leave it unchanged.
    """

    def __init__(self, model: nn.Module, batches: list[dict], pad: int):
        self.model = model.eval()
        self.batches = batches
        self.pad = pad
        self.sentences = sum(len(batch["id"]) for batch in batches)
        ids = np.concatenate([batch["id"].numpy() for batch in batches])
        self._order = np.argsort(ids, kind="stable")
        with torch.no_grad():
            self._encoded = [self._encode(batch) for batch in batches]

    def _encode(self, batch):
        net = batch["net_input"]
        return self.model.encoder(net["src_tokens"], src_lengths=net["src_lengths"])

    def sources(self) -> list[Tensor]:
        """Token ids of the source sentences without padding, EOS last, in the order of the data set."""
        rows = [row[row != self.pad] for batch in self.batches for row in batch["net_input"]["src_tokens"]]
        return [rows[i] for i in self._order]

    def losses(self, off: Iterable[Head] = (), instead: Mapping[Head, int | None] | None = None) -> Losses:
        """Losses of the model without the heads ``off``, or with their attention replaced (`heads_off`)."""
        nats, tokens = [], []
        for of_batch, real in self._token_nats(list(off), instead):
            nats.append(of_batch.sum(1))
            tokens.append(real.sum(1))
        nats, tokens = torch.cat(nats).numpy(), torch.cat(tokens).numpy()
        return Losses(nats[self._order].astype(np.float64), tokens[self._order])

    def token_nats(self, off: Iterable[Head], instead: Mapping[Head, int | None] | None = None) -> np.ndarray:
        """-log p of every target token of the first batch's first sentence: float64 ``[tokens]``."""
        nats, real = next(self._token_nats(list(off), instead))
        return nats[0][real[0]].numpy().astype(np.float64)

    @torch.no_grad()
    def _token_nats(self, off: list[Head], instead) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each batch, ``[sentences, tokens]``: -log p of target tokens (0 for padding), what is none."""
        encoder_changes = any(head.type == "enc_self" for head in off)
        with heads_off(self.model, off, instead):
            for batch, encoded in zip(self.batches, self._encoded):
                if encoder_changes:
                    encoded = self._encode(batch)
                target = batch["target"]
                output = self.model.decoder(
                    batch["net_input"]["prev_output_tokens"],
                    encoder_out=encoded,
                    src_lengths=batch["net_input"]["src_lengths"],
                )
                real = target != self.pad
                yield self._nats(output, target, batch) * real, real

    def _nats(self, output, target, batch) -> Tensor:
        log_p = self.model.get_normalized_probs(output, log_probs=True, sample=batch)
        return -log_p.gather(2, target.unsqueeze(2)).squeeze(2).double()
