"""A Marian model: weights (``.npz`` or ``.bin``), the vocabularies that the ``.yml`` beside it names."""

from collections.abc import Sequence
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports import marian_bin, marian_npz, names, options, vocabulary, yaml_files
from fairseq_headprune.imports.source import Source, check


def read(path, vocabs: Sequence[str] | None = None) -> Source:
    """The model in a file; ``vocabs``: its one or two vocabularies where they are not found by themselves."""
    path = Path(path)
    text, arrays = (marian_npz if path.suffix == ".npz" else marian_bin).read(path)
    config = yaml_files.parse(text, f"{path} ({marian_bin.CONFIGURATION})")
    ours = options.from_marian(config, path)
    tensors, left = names.rename({n: names.marian_shape(n, a) for n, a in arrays.items()}, names.from_marian)
    if names.ENCODER_EMBEDDING not in tensors or names.DECODER_EMBEDDING not in tensors:
        raise UserError(f"{path} is damaged: it has no embeddings of one of its languages (Wemb)")
    if ours.pop("share_source_target") and not ours["share_all_embeddings"]:
        raise options.refuse(
            path, "source and target share embeddings that the output does not (tied-embeddings-src)"
        )
    files = [Path(v) for v in vocabs] if vocabs else find_vocabularies(path)
    if len(files) > 2:
        raise UserError(
            f"--vocabs names {len(files)} files: give one for both languages, or source and target"
        )
    read_files = {file: vocabulary.read(file) for file in set(files)}
    notes, pair = [], []
    for file, table in zip((files[0], files[-1]), (names.ENCODER_EMBEDDING, names.DECODER_EMBEDDING)):
        words, rows = read_files[file], len(tensors[table])
        if (
            words.spm is None and len(words.words) > rows
        ):  # as Marian, which reads so many of a list and no more
            note = f"{file.name} lists {len(words.words):,} words; "
            note += f"the model knows the first {rows:,}, the rest are <unk>."
            notes += [note] if note not in notes else []
            words = words.first(rows)
        pair.append(words)
    if ours["share_all_embeddings"] and list(pair[0].words) != list(pair[1].words):
        raise UserError(
            f"{path} has one vocabulary for both languages, and {files[0]} and {files[-1]} differ: "
            "name the one with --vocabs"
        )
    ours.update(position_encoding="marian", decoder_start="zero")
    source = Source(path, ours, tensors, (pair[0], pair[1]), _spm(path, pair), notes=notes)
    check(source, left)
    return source


def find_vocabularies(path: Path) -> list[Path]:
    """Of the model ``path``, through a ``.yml`` in its folder that names it, else any that names
    vocabularies."""
    found = []
    for file in sorted(path.parent.glob("*.yml")):
        if "vocab" in file.name:
            continue
        try:
            content = yaml_files.read(file)
        except UserError:
            continue
        vocabs = yaml_files.as_list(content.get("vocabs"))
        if vocabs:
            models = [Path(str(m)).name for m in yaml_files.as_list(content.get("models"))]
            found.append((path.name not in models, [path.parent / v for v in vocabs]))
    if not found:
        raise UserError(f"no .yml beside {path} names its vocabularies: give them with --vocabs SRC [TGT]")
    return min(found, key=lambda entry: entry[0])[1]


def _spm(path: Path, pair) -> tuple[Path | None, Path | None]:
    """SentencePiece models: the vocabularies themselves, or OPUS-MT's ``source.spm`` and ``target.spm``."""
    beside = [path.parent / f"{side}.spm" for side in ("source", "target")]
    found = [words.spm or (file if file.is_file() else None) for words, file in zip(pair, beside)]
    return found[0], found[1]
