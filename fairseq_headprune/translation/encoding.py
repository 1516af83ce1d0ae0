"""Plain text as binarised data: the SentencePiece models and dictionaries of an imported model's folder,
fairseq's own binarizer."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading
from fairseq_headprune.checkpoints.configuration import configuration
from fairseq_headprune.imports.vocabulary import load_spm, split

SIDES = ("source", "target")


@dataclass(frozen=True)
class Counts:
    """What was written of one language."""

    language: str
    lines: int
    pieces: int
    unknown: int


def languages(folder: Path) -> tuple[str, str]:
    """Source and target language of an imported model's folder."""
    task = configuration(reading.load_checkpoint(folder / "model.pt")).get("task") or {}
    return str(task.get("source_lang")), str(task.get("target_lang"))


def read_text(path: Path) -> list[str]:
    """Lines of a text file, which only a line feed ends; UserError when it is no UTF-8, or empty."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error}): convert it first") from None
    if not text:
        raise UserError(f"{path} is empty: there is nothing to encode")
    return text.removesuffix("\n").split("\n")


def encode(folder: Path, texts: dict[str, Path], subset: str, out: Path) -> list[Counts]:
    """Write ``subset`` (``train``, ``valid``, ``test``) of the data folder ``out``, and the dictionaries.

    ``texts``: a text file for ``source`` and, but for data that is only translated, ``target``; line i
    belongs to line i. All of it is written or nothing. UserError when the subset is there already, or ``out``
    has other dictionaries.
    """
    pair = languages(folder)
    lines = {side: read_text(path) for side, path in texts.items()}
    counts = {len(found) for found in lines.values()}
    if len(counts) > 1:
        sizes = " and ".join(f"{texts[side]} {len(found):,}" for side, found in lines.items())
        raise UserError(f"source and target are not parallel: {sizes} lines")
    processors = {side: _pieces(folder, side) for side in texts}
    prefix = f"{subset}.{pair[0]}-{pair[1]}"
    there = sorted(out.glob(f"{prefix}.*")) if out.is_dir() else []
    if there:
        raise UserError(f"{there[0]} exists already: choose another --out or --split")
    names = [f"dict.{language}.txt" for language in pair]
    for name in names:
        if (out / name).exists() and (out / name).read_bytes() != (folder / name).read_bytes():
            raise UserError(f"{out / name} is another dictionary than that of {folder}: choose another --out")
    temporary, result = None, []
    try:
        out.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=out, prefix=".encode."))
        for side in texts:
            language = pair[SIDES.index(side)]
            dictionary = Dictionary.load(str(folder / f"dict.{language}.txt"))
            text = temporary / f"{side}.pieces"
            with open(text, "w", encoding="utf-8", newline="\n") as file:
                file.writelines(split(processors[side], line) + "\n" for line in lines[side])
            target = str(temporary / f"{prefix}.{language}")
            summary = FileBinarizer.multiprocess_dataset(
                str(text), "mmap", VocabularyDatasetBinarizer(dictionary), target, len(dictionary)
            )
            text.unlink()
            result.append(Counts(language, summary.num_seq, summary.num_tok, summary.num_replaced))
        for name in names:
            if not (out / name).exists():
                shutil.copyfile(folder / name, temporary / name)
        for path in sorted(temporary.iterdir()):
            os.replace(path, out / path.name)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return result


def _pieces(folder: Path, side: str):
    path = folder / f"{side}.spm"
    if not path.is_file():
        raise UserError(
            f"{folder} has no {side}.spm to split words with: split the text yourself and give it to "
            f"fairseq-preprocess with --srcdict and --tgtdict of {folder}"
        )
    return load_spm(path)
