"""Corpora of the demo language on disk: text, dependency trees and BPE pieces, split by split."""

import io
import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conllu.models import Metadata, TokenList
from conllu.models import Token as ConlluToken
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from demo_language import source, target
from demo_language.lexicon import Lexicon
from demo_language.phrases import Sampler
from fairseq_headprune.base.errors import UserError

SPLITS = ("train", "valid", "test")
SOURCE, TARGET = "src", "tgt"
BPE_MERGES = 2000
FILE_NAMES = ("codes",) + tuple(
    f"{split}.{suffix}"
    for split in SPLITS
    for suffix in (SOURCE, TARGET, "conllu", f"bpe.{SOURCE}", f"bpe.{TARGET}")
)


@dataclass(frozen=True)
class Pair:
    """A sentence: its source tokens with their heads, and the words of its translation."""

    tokens: Sequence[source.Token]
    translation: Sequence[str]

    @property
    def source_text(self) -> str:
        return " ".join(token.form for token in self.tokens)

    @property
    def target_text(self) -> str:
        return " ".join(self.translation)


def check_sizes(sizes: Mapping[str, int]) -> None:
    for split, size in sizes.items():
        if size < 1:
            raise UserError(f"--{split} {size} is not a number of sentences: give at least 1")


def draw_splits(seed: int, sizes: Mapping[str, int]) -> dict[str, list[Pair]]:
    """``{split: pairs}``; no source sentence occurs twice, neither in a split nor across them."""
    check_sizes(sizes)
    lexicon = Lexicon()
    sampler = Sampler(lexicon, random.Random(seed))
    seen, splits = set(), {}
    for split in reversed(SPLITS):  # the test set of a seed does not depend on the other sizes
        pairs: list[Pair] = []
        while len(pairs) < sizes[split]:
            sentence = sampler.sentence()
            pair = Pair(source.tokens(sentence), target.words(sentence, lexicon))
            if pair.source_text not in seen:
                seen.add(pair.source_text)
                pairs.append(pair)
        splits[split] = pairs
    return splits


def conllu_sentence(pair: Pair, name: str) -> str:
    """The tree of the source sentence as one CoNLL-U block, blank line included."""
    position = {id(token): i for i, token in enumerate(pair.tokens, 1)}
    rows = [
        ConlluToken(
            id=i,
            form=token.form,
            lemma=token.lemma,
            upos=token.upos,
            xpos=None,
            feats={"Number": source.NUMBERS[token.number]} if token.number else None,
            head=position[id(token.head)] if token.head else 0,
            deprel=token.deprel,
            deps=None,
            misc=None,
        )
        for i, token in enumerate(pair.tokens, 1)
    ]
    return TokenList(rows, Metadata(sent_id=name, text=pair.source_text)).serialize()


def learn_codes(lines: Iterable[str], merges: int = BPE_MERGES) -> str:
    """Joint BPE codes for the lines, as the text of a subword-nmt codes file."""
    codes = io.StringIO()
    learn_bpe(io.StringIO("".join(line + "\n" for line in lines)), codes, merges)
    return codes.getvalue()


def corpus_files(splits: Mapping[str, Sequence[Pair]], merges: int = BPE_MERGES) -> dict[str, str]:
    """``{file name: text}`` of everything that a corpus folder holds."""
    files = {}
    for split, pairs in splits.items():
        files[f"{split}.{SOURCE}"] = _lines(pair.source_text for pair in pairs)
        files[f"{split}.{TARGET}"] = _lines(pair.target_text for pair in pairs)
        files[f"{split}.conllu"] = "".join(
            conllu_sentence(pair, f"{split}-{i}") for i, pair in enumerate(pairs)
        )
    train = splits["train"]
    files["codes"] = learn_codes(
        [*(pair.source_text for pair in train), *(pair.target_text for pair in train)], merges
    )
    bpe = BPE(io.StringIO(files["codes"]))
    for split in splits:
        for language in (SOURCE, TARGET):
            text = files[f"{split}.{language}"]
            files[f"{split}.bpe.{language}"] = _lines(map(bpe.process_line, text.splitlines()))
    return files


def _lines(lines: Iterable[str]) -> str:
    return "".join(line + "\n" for line in lines)


def open_folder(out: str, force: bool = False) -> Path:
    """The folder ``out``, made if need be and proved writable, before any work is done for it."""
    if not str(out):
        raise UserError("--out is empty: name a folder, . for the current one")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {out} is a file: name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        present = [name for name in FILE_NAMES if (folder / name).exists()]
    except OSError as error:
        raise UserError(
            f"--out {out} cannot be written to ({error.strerror or error}): name another folder"
        ) from None
    if present and not force:
        raise UserError(f"--out {out} already holds {present[0]}: name another folder or add --force")
    return folder


def write_corpus(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files into a folder; they appear there only once all are complete."""
    hold = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
    try:
        for name, text in files.items():
            (hold / name).write_text(text, encoding="utf-8")
        for name in files:
            os.replace(hold / name, folder / name)
    except OSError as error:
        raise UserError(f"cannot write to --out {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(hold, ignore_errors=True)
