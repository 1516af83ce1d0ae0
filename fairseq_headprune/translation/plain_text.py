"""Plain text through SentencePiece, fairseq's own search, and back: a thin layer over fairseq."""

from collections.abc import Sequence
from pathlib import Path

import torch
from fairseq import utils
from tqdm import tqdm

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports.vocabulary import load_spm, split
from fairseq_headprune.translation import scoring
from fairseq_headprune.translation.search import open_search


class PlainText:
    """The model of a folder (``model.pt`` or ``checkpoint``), its vocabularies and fairseq's generator."""

    def __init__(self, folder: Path, checkpoint: str | None = None, beam: int = 5):
        self.source = load_spm(folder / "source.spm")
        self.model, self.task, self.generator = open_search(
            checkpoint or folder / "model.pt", str(folder), beam, longest=(3, 10)
        )  # Marian stops at three times the source

    def encode(self, line: str) -> torch.Tensor:
        """Ids of a line under the source dictionary, end of sentence included: ``[tokens]``."""
        return self.task.source_dictionary.encode_line(
            split(self.source, line), add_if_not_exist=False
        ).long()

    @torch.no_grad()
    def translate(self, lines: Sequence[str], max_tokens: int = 2000) -> list[str]:
        """One translation a line, in their order; an empty line stays empty. Progress on standard error.

        UserError for a line longer than the model's positions or than ``max_tokens``, before any work.
        """
        ids = [self.encode(line) for line in lines]
        limit = min(
            max_tokens, utils.resolve_max_positions(self.task.max_positions(), self.model.max_positions())[0]
        )
        for number, tokens in enumerate(ids):
            if len(tokens) > limit:
                raise UserError(
                    f"line {number + 1} has {len(tokens)} pieces and {limit} are allowed: split it, "
                    "or raise --max-tokens"
                )
        full = [n for n, line in enumerate(lines) if line.strip()]
        found: dict[int, str] = {}
        dataset = self.task.build_dataset_for_inference([ids[n] for n in full], [len(ids[n]) for n in full])
        batches = self.task.get_batch_iterator(
            dataset, max_tokens=max_tokens, max_sentences=64, required_batch_size_multiple=1
        ).next_epoch_itr(shuffle=False)
        with tqdm(total=len(full), unit=" lines", disable=None) as progress:
            for sample in batches:
                best = self.task.inference_step(self.generator, [self.model], sample)
                for id, hypotheses in zip(sample["id"].tolist(), best):
                    tokens = utils.strip_pad(hypotheses[0]["tokens"], self.task.target_dictionary.pad())
                    found[full[id]] = scoring.words(self.task.target_dictionary, tokens, "sentencepiece")
                progress.update(len(best))
        return [found.get(n, "") for n in range(len(lines))]
