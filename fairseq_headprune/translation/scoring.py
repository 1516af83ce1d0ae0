"""From fairseq-generate's output to scores: sacreBLEU, chrF, paired bootstrap, by source length."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from fairseq_headprune.base.errors import UserError

LENGTH_EDGES = (0, 10, 15, 20, 10**9)
"""Classes of source length in words: up to 10, 11 to 15, 16 to 20, above."""
RESAMPLES = 1000


@dataclass(frozen=True)
class Translations:
    """One test set translated: token text without BPE, in the order of the set."""

    sources: tuple[str, ...]
    references: tuple[str, ...]
    hypotheses: tuple[str, ...]


def parse_generate(
    text: str, name: str = "fairseq-generate's output", expected: int | None = None
) -> Translations:
    """S-, T- and H-lines of fairseq-generate, sorted by sentence.

    UserError when sentences are missing, or not as many as ``expected``: a score of the rest would
    be one of another test set.
    """
    found: dict[str, dict[int, str]] = {"S": {}, "T": {}, "H": {}}
    for line in text.split("\n"):
        match = re.match(r"([STH])-(\d+)\t", line)
        if match:
            kind, number = match[1], int(match[2])
            cells = line.split("\t")
            if kind != "H" or number not in found["H"]:  # the best hypothesis comes first
                found[kind][number] = cells[2 if kind == "H" else 1] if len(cells) > (kind == "H") + 1 else ""
    counts = {kind: len(lines) for kind, lines in found.items()}
    total = len(found["S"])
    if not total or counts["H"] != total or set(found["H"]) != set(range(total)):
        raise UserError(
            f"{name} has {counts['H']} hypotheses for {total} sources: translate the set again, whole"
        )
    if expected is not None and expected != total:
        raise UserError(f"{name} has {total} sentences, the test set has {expected}")
    if found["T"] and len(found["T"]) != total:
        raise UserError(f"{name} has {counts['T']} references for {total} sources")

    def ordered(kind):
        return tuple(found[kind][i] for i in sorted(found[kind]))

    return Translations(ordered("S"), ordered("T"), ordered("H"))


def sentences_in(data: str, subset: str) -> int:
    """Sentences of a subset of a folder of binarised data; UserError when there is no such subset."""
    from fairseq.data.data_utils import load_indexed_dataset

    for index in sorted(Path(data).glob(f"{subset}.*-*.*.idx")):
        return len(load_indexed_dataset(str(index.with_suffix("")), default="mmap"))
    raise UserError(f"there is no subset '{subset}' in {data}")


def splitting(symbols: Iterable[str]) -> str:
    """How a vocabulary splits words, as fairseq's ``--remove-bpe`` names it: ``sentencepiece`` when a piece
    starts with its mark, else ``subword_nmt`` (which leaves whole words alone)."""
    return "sentencepiece" if any(s.startswith("\u2581") for s in symbols) else "subword_nmt"


def splitting_of(data: str) -> str:
    """`splitting` of the dictionaries in a folder of binarised data."""
    symbols = (line for path in sorted(Path(data).glob("dict.*.txt")) for line in read_lines(path))
    return splitting(symbols)


def words(dictionary, tokens, bpe: str, reference: bool = False) -> str:
    """Token ids as text, pieces joined (``bpe``: as ``--remove-bpe`` names it, see `splitting`).

    An unknown token is ``<unk>`` in a hypothesis and ``<<unk>>`` in a reference, as
    fairseq-generate writes it.
    """
    return dictionary.string(tokens, bpe, escape_unk=reference)


def apart(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[list[str], list[str]]:
    """Unknown tokens of both sides as two characters that no tokenizer takes apart and that never match:
    a word that the model does not know earns no credit where the reference has one, too."""
    return (
        [re.sub(r"<unk>", "\ue001", line) for line in hypotheses],
        [re.sub(r"<<unk>>|<unk>", "\ue000", line) for line in references],
    )


def detokenize(lines: Sequence[str], language: str) -> list[str]:
    """Moses tokens (escaped, hyphens split as @-@) to plain text."""
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang=language)
    return [detokenizer.detokenize(line.replace(" @-@ ", "-").split()) for line in lines]


def read_lines(path) -> list[str]:
    """Lines of a UTF-8 text file; only a line feed ends a line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the references {path}: {error}") from None
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n")


def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """sacreBLEU and chrF2 of detokenised text, with signatures."""
    if len(hypotheses) != len(references):
        raise UserError(f"{len(hypotheses)} hypotheses for {len(references)} references: not one set")
    hypotheses, references = apart(hypotheses, references)
    bleu, chrf = BLEU(), CHRF()
    b = bleu.corpus_score(hypotheses, [references])
    c = chrf.corpus_score(hypotheses, [references])
    return {
        "sentences": len(references),
        "bleu": round(b.score, 3),
        "signature": bleu.get_signature().format(),
        "brevity_penalty": round(b.bp, 4),
        "chrf": round(c.score, 3),
        "chrf_signature": chrf.get_signature().format(),
    }


def by_length(
    hypotheses: Sequence[str], references: Sequence[str], lengths: Sequence[int], edges=LENGTH_EDGES
) -> list[dict[str, Any]]:
    """Scores by length of the source: one record per class with ``over``, ``up_to`` words and
    ``sentences``; classes without sentences are left out."""
    records = []
    for low, high in zip(edges, edges[1:]):
        chosen = [i for i, n in enumerate(lengths) if low < n <= high]
        if chosen:
            scores = score([hypotheses[i] for i in chosen], [references[i] for i in chosen])
            kept = {k: scores[k] for k in ("sentences", "bleu", "chrf")}
            records.append({"over": low, "up_to": None if high >= 10**9 else high, **kept})
    return records


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """What corpus BLEU sums over sentences: ``[sentences, 2 + 2 * 4]`` with hypothesis length,
    reference length, then matched and possible n-grams of order 1 to 4."""
    hypotheses, references = apart(hypotheses, references)
    bleu = BLEU(effective_order=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references):
        s = bleu.sentence_score(hypothesis, [reference])
        rows.append([s.sys_len, s.ref_len, *s.counts, *s.totals])
    return np.array(rows, dtype=np.int64)


def bleu_of(statistics: np.ndarray) -> float:
    """Corpus BLEU of summed ``sentence_statistics``, smoothed as sacreBLEU's default."""
    total = [int(x) for x in statistics]
    return BLEU.compute_bleu(
        correct=total[2:6],
        total=total[6:10],
        sys_len=total[0],
        ref_len=total[1],
        smooth_method="exp",
    ).score


def paired(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 12345,
) -> dict[str, Any]:
    """BLEU of a system minus that of another on the same sentences, by paired bootstrap.

    ``difference`` with its 95 % interval ``low``..``high`` over resampled sentences, and ``p``, the
    p-value of sacreBLEU's own paired bootstrap test (Koehn 2004).
    """
    one = sentence_statistics(hypotheses, references)
    two = sentence_statistics(others, references)
    (hypotheses, references), others = apart(hypotheses, references), apart(others, references)[0]
    generator = np.random.default_rng(seed)
    differences = []
    for _ in range(resamples):
        drawn = generator.integers(len(one), size=len(one))
        differences.append(bleu_of(one[drawn].sum(0)) - bleu_of(two[drawn].sum(0)))
    low, high = np.percentile(differences, [2.5, 97.5])
    if list(hypotheses) == list(others):  # sacreBLEU's test takes a difference of 0 for a rare one
        return {"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0, "resamples": resamples}
    test = PairedTest(
        [("other", list(others)), ("system", list(hypotheses))],
        {"BLEU": BLEU(references=[list(references)])},
        references=None,
        test_type="bs",
        n_samples=resamples,
    )
    _, results = test()
    return {
        "difference": round(bleu_of(one.sum(0)) - bleu_of(two.sum(0)), 3),
        "low": round(float(low), 3),
        "high": round(float(high), 3),
        "p": round(float(results["BLEU"][1].p_value), 4),
        "resamples": resamples,
    }
