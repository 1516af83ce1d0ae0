"""Vocabularies of SentencePiece (``.spm``), Marian (``.yml``) and Hugging Face (``.json``) in the order of
their ids.

fairseq wants a frequency a word, which none of these files has: SentencePiece's unigram scores are log
probabilities, so theirs give frequencies of a text of `TOTAL` pieces; elsewhere the rank r gives the
frequency TOTAL / r that Zipf's law would.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports import yaml_files

TOTAL = 10_000_000
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""fairseq's first words, in its order."""
EOS, UNK, PAD = "</s>", "<unk>", "<pad>"


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their ids, frequencies, where these are from, and the SentencePiece file if it
    is one."""

    words: Sequence[str]
    frequencies: Sequence[int]
    origin: str
    path: Path
    spm: Path | None = None

    def first(self, count: int) -> "Vocabulary":
        """The first ``count`` words."""
        return Vocabulary(self.words[:count], self.frequencies[:count], self.origin, self.path, self.spm)


def read(path) -> Vocabulary:
    """A vocabulary by the ending of its file; UserError when it is none, or has gaps."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"the vocabulary {path} does not exist: name it with --vocabs")
    if path.suffix in (".spm", ".model"):
        return _read_spm(path)
    if path.suffix in (".yml", ".yaml"):
        return _by_rank(_in_order(yaml_files.read(path), path), path)
    if path.suffix == ".json":
        ids = yaml_files.read_json(path, "give the vocabulary as the other program wrote it")
        return _by_rank(_in_order(ids, path), path)
    if path.suffix == ".fsv":
        raise UserError(f"{path} is a factored vocabulary, which has no counterpart in fairseq")
    raise UserError(
        f"the vocabulary {path} is of an unknown kind: name a .spm, .yml or .json file with --vocabs"
    )


def _read_spm(path: Path) -> Vocabulary:
    processor = load_spm(path)
    size = processor.vocab_size()
    words = [processor.id_to_piece(i) for i in range(size)]
    special = {
        processor.eos_id(): EOS,
        processor.unk_id(): UNK,
        processor.bos_id(): "<s>",
        processor.pad_id(): PAD,
    }
    words = [special.get(i, word) for i, word in enumerate(words)]
    scores = [processor.get_score(i) for i in range(size)]
    if all(score == -rank for rank, score in enumerate(_normal(processor, scores))):  # BPE: minus the rank
        return _checked(_by_rank(words, path, path))
    frequencies = [max(1, round(TOTAL * math.exp(min(0.0, score)))) for score in scores]
    for i in special:
        if i >= 0:
            frequencies[i] = 1
    return _checked(Vocabulary(words, frequencies, "SentencePiece's unigram scores", path, path))


def _normal(processor, scores):
    """Scores of the pieces that are neither special nor single characters set by hand."""
    return [
        scores[i]
        for i in range(len(scores))
        if not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
    ][:50]


def load_spm(path):
    """A SentencePiece model; UserError when it is none."""
    import sentencepiece

    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError):
        raise UserError(
            f"cannot read {path} as a SentencePiece model: it is cut short or another kind of file"
        ) from None


def split(processor, line: str) -> str:
    """A line of plain text as the words of its dictionary, a space between them."""
    return " ".join(readable(piece) for piece in processor.encode(line, out_type=str))


def _in_order(ids, path: Path) -> list[str]:
    """Words by their ids, which must be 0, 1, 2, …"""
    if not isinstance(ids, dict) or not ids:
        raise UserError(f"{path} is not a vocabulary: it has no 'word: id' lines")
    try:
        numbered = {int(i): word for word, i in ids.items()}
    except (TypeError, ValueError):
        raise UserError(f"{path} is not a vocabulary: its ids are not all numbers") from None
    if len(numbered) != len(ids) or sorted(numbered) != list(range(len(ids))):
        raise UserError(
            f"{path} is not a whole vocabulary: its {len(ids):,} ids are not 0 to {len(ids) - 1:,}"
        )
    return [numbered[i] for i in range(len(ids))]


def _by_rank(words: Sequence[str], path: Path, spm: Path | None = None) -> Vocabulary:
    frequencies = [1 if word in SPECIAL else max(1, TOTAL // (rank + 1)) for rank, word in enumerate(words)]
    return _checked(Vocabulary(words, frequencies, "the rank in the vocabulary", path, spm))


def _checked(vocabulary: Vocabulary) -> Vocabulary:
    for word in (EOS, UNK):
        if word not in vocabulary.words:
            raise UserError(f"{vocabulary.path} is no vocabulary of a translation model: it has no {word}")
    return vocabulary


def fairseq_order(words: Sequence[str]) -> list[int]:
    """For each id of fairseq's dictionary the id in ``words``, or -1 for ``<s>`` and ``<pad>`` where
    missing."""
    place = {word: i for i, word in enumerate(words)}
    first = [place.get(word, -1) for word in SPECIAL]
    return first + [i for i, word in enumerate(words) if word not in SPECIAL]


def dictionary(vocabulary: Vocabulary) -> str:
    """The text of fairseq's ``dict.LANG.txt``. A word that fairseq's reader would split or trim (white
    space in it) is written with ``<U+XXXX>`` for each such character."""
    lines, taken = [], set(vocabulary.words)
    for word, frequency in zip(vocabulary.words, vocabulary.frequencies):
        if word in SPECIAL:
            continue
        safe = readable(word)
        if safe != word:
            while safe in taken:
                safe += "_"
            taken.add(safe)
        lines.append(f"{safe} {frequency}\n")
    return "".join(lines)


def readable(word: str) -> str:
    """``word`` as fairseq's dictionaries and white-space tokenisation can hold it."""
    return re.sub(r"\s", lambda m: f"<U+{ord(m[0]):04X}>", word) or "<empty>"


def unreadable(word: str) -> str:
    """`readable`, undone."""
    return re.sub(r"<U\+([0-9A-F]{4,6})>", lambda m: chr(int(m[1], 16)), word) if "<U+" in word else word
