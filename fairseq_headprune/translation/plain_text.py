"""Plain text through SentencePiece, fairseq's own search, and back: a thin layer over fairseq."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from tqdm import tqdm

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports.vocabulary import load_spm, split
from fairseq_headprune.recording.generator import RecordingGenerator
from fairseq_headprune.recording.options import RecordOptions
from fairseq_headprune.recording.run import RunRecord, model_identity
from fairseq_headprune.translation import scoring
from fairseq_headprune.translation.search import open_search


class PlainText:
    """The model of a folder (``model.pt`` or ``checkpoint``), its vocabularies and fairseq's generator."""

    def __init__(self, folder: Path, checkpoint: str | None = None, beam: int = 5):
        self.source = load_spm(folder / "source.spm")
        self.path = checkpoint or folder / "model.pt"
        self.options = {
            "beam": beam,
            "max_len_a": 3,
            "max_len_b": 10,
        }  # Marian stops at three times the source
        self.model, self.task, self.generator = open_search(self.path, str(folder), beam, longest=(3, 10))
        self.record: RunRecord | None = None

    def dump(self, out: str, types: Sequence[str]) -> None:
        """From here on, write the attention of all heads of these types to the new folder ``out``: sentence i
        is line i, from 0."""
        if Path(out).exists() and (not Path(out).is_dir() or any(Path(out).iterdir())):
            raise UserError(f"--dump-attention {out} exists already: name a new folder")
        self.record = RunRecord(
            RecordOptions({}, None, out, tuple(types)),
            self.model,
            (self.task.source_dictionary, self.task.target_dictionary),
            model_identity(str(self.path)),
            {
                "source_lang": self.task.cfg.source_lang,
                "target_lang": self.task.cfg.target_lang,
                "input": "-",
            },
            {"generation": self.options},
        )
        words = self.task.target_dictionary
        self.generator = RecordingGenerator(self.generator, self.model, self.record, words.pad(), words.eos())

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
        if self.record:
            lengths = np.array([len(ids[n]) for n in full])
            self.record.expect(lengths, lengths)
        dataset = self.task.build_dataset_for_inference([ids[n] for n in full], [len(ids[n]) for n in full])
        batches = self.task.get_batch_iterator(
            dataset, max_tokens=max_tokens, max_sentences=64, required_batch_size_multiple=1
        ).next_epoch_itr(shuffle=False)
        with tqdm(total=len(full), unit=" lines", disable=None) as progress:
            for sample in batches:
                sample["id"] = torch.tensor([full[id] for id in sample["id"].tolist()])
                best = self.task.inference_step(self.generator, [self.model], sample)
                for id, hypotheses in zip(sample["id"].tolist(), best):
                    tokens = utils.strip_pad(hypotheses[0]["tokens"], self.task.target_dictionary.pad())
                    found[id] = scoring.words(self.task.target_dictionary, tokens, "sentencepiece")
                progress.update(len(best))
        if self.record:
            self.record.close()
        return [found.get(n, "") for n in range(len(lines))]
