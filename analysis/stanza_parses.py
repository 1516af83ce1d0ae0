"""Trees made by Stanza from the dump's own words, offline, and kept as CoNLL-U.

The file has one sentence for every sentence id from 0 on, so that it also serves another model's
dump of the same text (``--conllu``). Where the dump has no words for an id, a lone ``_`` stands.
"""

import json
import os
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path

import conllu
from tqdm import tqdm

from fairseq_headprune.analysis.words import EOS, language_tag, word_texts
from fairseq_headprune.base.errors import UserError

CHUNK = 200
"""Sentences parsed, and written, at a time."""

PROCESSORS = "tokenize,pos,lemma,depparse"


def load_pipeline(directory, lang: str):
    """(pipeline, name): the Stanza pipeline of ``lang`` in ``directory``, and what it is called.

    UserError when stanza or the models are missing. Nothing is downloaded.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UserError(f"--stanza {directory} is not a directory: give the one with resources.json")
    try:
        import stanza
    except ImportError:
        raise UserError("--stanza needs the package stanza: pip install stanza") from None
    try:
        pipeline = stanza.Pipeline(
            lang,
            dir=str(directory),
            processors=PROCESSORS,
            tokenize_pretokenized=True,
            download_method=None,
            use_gpu=False,
            verbose=False,
        )
    except Exception as error:  # stanza raises many kinds for a model that is missing or broken
        raise UserError(
            f"no Stanza pipeline ({PROCESSORS}) for '{lang}' in {directory}: {_first_line(error)}"
        ) from None
    models = sorted(
        os.path.relpath(path, directory)
        for name in PROCESSORS.split(",")
        for path in [pipeline.processors[name].config.get("model_path")]
        if path and os.path.exists(path)  # with words given, there is no tokenizer
    )
    return pipeline, f"stanza {stanza.__version__} {lang}: {', '.join(models)}"


def parse_dump(dump, directory, lang: str, path, quiet: bool = False) -> tuple[Path, str]:
    """Parse the source text of ``dump`` into the CoNLL-U file ``path``; (path, name of the parser).

    A finished file of the same words and the same parser is used as it is, an unfinished one is
    gone on with.
    """
    path = Path(path)
    pipeline, name = load_pipeline(directory, lang)
    part = path.with_name(path.name + ".partial")
    with tempfile.TemporaryFile() as store:
        offsets = _store_words(dump, store)
        for existing in (path, part):
            done = _usable(existing, name, offsets, store)
            if done is not None:
                break
        if existing == path and done is not None and done == len(offsets) - 1:
            return path, name
        if done is None:
            part.write_text(f"# parser = {name}\n", encoding="utf-8")
            done = 0
        total = len(offsets) - 1
        bar = tqdm(total=total, initial=done, unit=" sentences", desc="stanza", disable=quiet)
        with bar, open(part, "a", encoding="utf-8") as file:
            for start in range(done, total, CHUNK):
                chunk = [_words(store, offsets, i) for i in range(start, min(start + CHUNK, total))]
                file.writelines(to_conllu(pipeline, chunk, start))
                file.flush()
                bar.update(len(chunk))
    os.replace(part, path)
    return path, name


def to_conllu(pipeline, sentences: Sequence[Sequence[str]], first: int) -> list[str]:
    """CoNLL-U blocks of sentences of words; ``first`` numbers the first one."""
    parsed = (
        iter(pipeline([list(words) for words in sentences if words]).sentences)
        if any(sentences)
        else iter(())
    )
    blocks = []
    for number, words in enumerate(sentences, first):
        rows = [("_", "_", "X", 0, "root")]
        if words:
            rows = [(w.text, w.lemma, w.upos, w.head, w.deprel) for w in next(parsed).words]
        tokens = conllu.models.TokenList(
            [
                conllu.models.Token(
                    id=i, form=form, lemma=lemma or "_", upos=upos or "_", xpos="_", feats=None,
                    head=head, deprel=deprel, deps=None, misc=None,
                )
                for i, (form, lemma, upos, head, deprel) in enumerate(rows, 1)
            ],
            metadata={"sent_id": str(number)},
        )  # fmt: skip
        blocks.append(tokens.serialize())
    return blocks


def _store_words(dump, store) -> array:
    """Write the words of every sentence into ``store``, one JSON list a sentence in the order of
    ids; where each begins, and where the last ends. Memory: 16 bytes a sentence."""
    size = max(dump.ids) + 1
    begins, ends = array("q", [-1]) * size, array("q", [-1]) * size
    with tempfile.TemporaryFile() as unsorted:
        for record in dump:
            tokens = record.source[: len(record.source) - (record.source[-1:] == [EOS])]
            begins[record.id] = unsorted.tell()
            unsorted.write(json.dumps(word_texts(tokens[language_tag(tokens) :])).encode())
            ends[record.id] = unsorted.tell()
        offsets = array("q", [0])
        for begin, end in zip(begins, ends):
            unsorted.seek(max(begin, 0))
            store.write(unsorted.read(end - begin) or b"[]")
            offsets.append(store.tell())
    return offsets


def _words(store, offsets, number) -> list[str]:
    store.seek(offsets[number])
    return json.loads(store.read(offsets[number + 1] - offsets[number]))


def _usable(path, name, offsets, store):
    """How many sentences of ``path`` can be kept, None for a file that is no good. What is behind
    the last whole sentence is cut off."""
    try:
        with open(path, "r+b") as file:
            if file.readline().decode("utf-8").rstrip("\n") != f"# parser = {name}":
                return None
            good, number, words = file.tell(), 0, []
            for line in iter(file.readline, b""):
                if line == b"\n":
                    expected = _words(store, offsets, number) if number + 1 < len(offsets) else None
                    if words != (expected or ["_"]) or expected is None:
                        return None
                    good, number, words = file.tell(), number + 1, []
                elif line[:1] != b"#":
                    words.append(line.decode("utf-8").split("\t")[1])
            if file.tell() > good:
                file.truncate(good)
            return number
    except (OSError, UnicodeDecodeError, IndexError):
        return None


def _first_line(error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
