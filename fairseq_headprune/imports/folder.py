"""The folder of an imported model: written under another name, then put in its place as a whole."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.files import writing
from fairseq_headprune.dump import file_sha256
from fairseq_headprune.imports.source import Source
from fairseq_headprune.imports.vocabulary import dictionary

MODEL = "model.pt"


def write_whole(out, fill: Callable[[Path], None], option: str = "--out") -> None:
    """A new folder ``out`` with what ``fill`` writes into the one it is given, or nothing at all. ``option``
    named it."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{option} {out} exists already: name a new folder")
    temporary = None
    try:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
            fill(temporary)
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o777 & ~umask)
            if out.exists():
                out.rmdir()
            os.replace(temporary, out)
    finally:
        if temporary is not None and temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)


def files(source: Source, languages: tuple[str, str]) -> dict[str, str]:
    """Name -> text of the small files."""
    texts = {f"dict.{lang}.txt": dictionary(v) for lang, v in zip(languages, source.vocabularies)}
    texts["README.md"] = readme(source, languages)
    return texts


def licence(folder: Path) -> str:
    """What the files beside the model say, quoted; or that they say nothing."""
    for name in ("LICENSE", "LICENSE.txt", "LICENSE.md", "README.md", "SOURCE.md"):
        path = folder / name
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"(?im)^\s*licen[sc]e\s*:\s*(\S.*)$", text) or re.search(
            r"(Mozilla Public License[ ,]*(?:version )?[\d.]*\d|MPL[- ]2\.0|Apache License[^.\n]*|"
            r"CC[- ]BY[-\w. ]*\d|MIT License)",
            text,
        )
        if match:
            return f"{match[1].strip()} (as {name} beside it says)"
    return "the files beside it do not say"


def readme(source: Source, languages: tuple[str, str]) -> str:
    """What the folder is and where it is from."""
    o = source.options
    decoder = (
        "SSRU in place of self-attention"
        if o["ssru"]
        else f"self-attention of {o['decoder_attention_heads']} heads"
    )
    vocabularies = dict.fromkeys(f"{v.path.name} ({v.origin})" for v in source.vocabularies)
    lines = [
        f"# {languages[0]}–{languages[1]}, imported",
        "",
        f"- from `{source.file.name}`, sha256 `{file_sha256(source.file)}`",
        f"- licence: {licence(source.file.parent)}",
        f"- encoder of {o['encoder_layers']} layers, {o['encoder_attention_heads']} heads, "
        f"width {o['encoder_embed_dim']}; "
        f"decoder of {o['decoder_layers']} layers: {decoder}",
        f"- frequencies in the dictionaries are estimates from: {', '.join(vocabularies)}",
        *[f"- {note}" for note in source.notes],
        "",
        f"`{MODEL}` loads in fairseq with `--user-dir` of fairseq-headprune.",
        "",
    ]
    return "\n".join(lines)


def write(source: Source, languages: tuple[str, str], checkpoint, out) -> None:
    """Model, dictionaries, SentencePiece models and README into the new folder ``out``."""
    import torch

    def fill(folder: Path) -> None:
        checkpoint["cfg"]["task"]["data"] = str(Path(out).resolve())
        torch.save(checkpoint, folder / MODEL)
        for name, text in files(source, languages).items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        for side, path in zip(("source", "target"), source.spm):
            if path is not None:
                shutil.copyfile(path, folder / f"{side}.spm")

    write_whole(out, fill)
