"""Translations of a model with heads switched off."""

from collections.abc import Iterable

import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGenerator

from fairseq_headprune.analysis.ablation.heads_off import heads_off
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.translation import scoring
from fairseq_headprune.units.layout import Head


def read_references(path: str, sentences: int) -> list[str]:
    """One reference a line; UserError when there are not ``sentences`` of them."""
    lines = scoring.read_lines(path)
    if len(lines) != sentences:
        raise UserError(f"--references {path} has {len(lines)} lines for {sentences} sentences")
    return lines


class Translator:
    """Beam search over the same batches for variants of one model.

    ``bpe``: how pieces are joined, as fairseq's ``--remove-bpe`` names it (None: found from the
    dictionary). ``language``: of the Moses tokenizer to undo, or None.
    """

    def __init__(self, task, model, batches: list[dict], beam: int, bpe: str | None, language: str | None):
        self.model = model
        self.batches = batches
        self.beam = beam
        self.language = language
        self.dictionary = task.target_dictionary
        self.bpe = bpe or scoring.splitting(self.dictionary.symbols)

    def _texts(self, ids, reference: bool = False) -> list[str]:
        pad = self.dictionary.pad()
        lines = [
            scoring.words(self.dictionary, utils.strip_pad(ids[i], pad), self.bpe, reference)
            for i in sorted(ids)
        ]
        return lines if self.language is None else scoring.detokenize(lines, self.language)

    def references(self) -> list[str]:
        """The targets of the data as text, undone exactly as translations are."""
        return self._texts({int(i): t for b in self.batches for i, t in zip(b["id"], b["target"])}, True)

    @torch.no_grad()
    def translate(self, off: Iterable[Head] = ()) -> list[str]:
        """Best hypotheses in the order of the data set, with the heads ``off`` switched off.

        At most 1.2 times as long as the source plus 10 tokens: without its decoder-encoder heads a
        model may never stop.
        """
        found = {}
        with heads_off(self.model, off):
            search = SequenceGenerator(
                [self.model], self.dictionary, beam_size=self.beam, max_len_a=1.2, max_len_b=10
            )
            for batch in self.batches:
                for id, hypotheses in zip(batch["id"], search.generate([self.model], batch)):
                    found[int(id)] = hypotheses[0]["tokens"]
        return self._texts(found)


def difference(hypotheses: list[str], baseline: list[str], references: list[str], resamples: int):
    """BLEU of a system beside the baseline's: ``bleu``, ``bleu_difference``, its 95 % interval
    ``bleu_low``..``bleu_high`` by paired bootstrap over sentences, and sacreBLEU's ``bleu_p``."""
    paired = scoring.paired(hypotheses, baseline, references, resamples)
    return {
        "bleu": scoring.score(hypotheses, references)["bleu"],
        **{f"bleu_{key}": paired[key] for key in ("difference", "low", "high", "p")},
    }
