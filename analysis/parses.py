"""Dependency trees from CoNLL-U files, plain or .gz, one sentence at a time in any order.

Reading a sentence takes four columns of ten, so it is done here: the `conllu` package, which the
tests compare this reader with, needs about ten times as long and cannot name the line that is
broken. `conllu` writes the files that Stanza's parses are kept in (stanza_parses.py).
"""

import codecs
import gzip
import mmap
import re
import tempfile
import zlib
from array import array
from collections.abc import Sequence
from operator import eq
from pathlib import Path
from typing import NamedTuple

from fairseq_headprune.base.errors import UserError

_NUMBERS = [str(number) for number in range(1, 1001)]
_BLOCK = 1 << 20
_BOM_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OTHER_ID = re.compile(r"(\d+)(?:-(\d+)|\.\d+)")


_STANFORD = {"dobj": "obj", "nsubjpass": "nsubj:pass", "csubjpass": "csubj:pass", "auxpass": "aux:pass"}
"""Relations of Stanford Dependencies and UD 1 by the names of Universal Dependencies 2."""


class Parse(NamedTuple):
    """One sentence. "Head" here is the syntactic head of a word, not an attention head."""

    surface: Sequence[str]
    """The text, in order: words, or a multi-word token whose words do not spell it (``im``)."""
    place: Sequence[int]
    """For each word its index in ``surface``."""
    heads: Sequence[int]
    """For each word the index of its syntactic head, -1 for the root."""
    labels: Sequence[str]
    """For each word its relation to its head, as written in the file (``nsubj:pass``)."""


def relation_name(label: str, keep_subtypes: bool = False) -> str:
    """The name a relation is counted under: Stanford's by that of Universal Dependencies (``dobj`` ->
    ``obj``, ``nsubjpass`` -> ``nsubj:pass``), and ``nsubj:pass`` -> ``nsubj`` unless subtypes are kept."""
    label = label.strip().lower()
    label = _STANFORD.get(label, label)
    return label if keep_subtypes else label.partition(":")[0]


def parse_block(text: str, source: str, first_line: int, number: int = 0) -> Parse:
    """Sentence ``number`` of a CoNLL-U file. UserError names ``source`` and the line that is broken, or
    the sentence whose words are no tree: they have one root, and lead to it.

    Empty nodes (``8.1``) are no words and are left out. The words of a multi-word token
    (``1-2 don't``) are kept as words of their own where they spell it, and share it otherwise.
    """
    fields = text.rstrip("\n").replace("\n", "\t").split("\t")
    size = len(fields) // 10
    if fields[::10] == _NUMBERS[:size] and len(fields) == 10 * size:
        try:
            heads = [int(head) - 1 for head in fields[6::10]]
        except ValueError:
            heads = [size]
        valid = -1 <= min(heads) and max(heads) < size and not any(map(eq, heads, range(size)))
        if valid and not _no_tree(heads):
            return Parse(fields[1::10], range(size), heads, fields[7::10])
    return _parse_lines(text, source, first_line, number)


def _no_tree(heads: Sequence[int]) -> tuple[int, str] | None:
    """Why syntactic heads (-1: root) are no tree, with the index of the word to look at; None for a tree."""
    roots = [word for word, head in enumerate(heads) if head < 0]
    if not roots:
        return 0, "has no root"
    if len(roots) > 1:
        return roots[1], f"has {len(roots)} roots, e.g. words {roots[0] + 1} and {roots[1] + 1}"
    walk = [-1] * len(heads)  # the word from which each was reached first
    for start in range(len(heads)):
        word = start
        while word >= 0 and walk[word] < 0:
            walk[word] = start
            word = heads[word]
        if word >= 0 and walk[word] == start:
            return word, f"has a cycle: word {word + 1} depends on itself by way of others"
    return None


def _parse_lines(text, source, first_line, sentence) -> Parse:
    """`parse_block` for every sentence that is not just words in order."""
    words: list[str] = []
    heads: list[int] = []
    labels: list[str] = []
    lines: list[int] = []
    ranges = []

    def broken(line, why):
        return UserError(f"{source}, line {line}: {why}")

    for number, line in enumerate(text.split("\n"), first_line):
        if not line or line[0] == "#":
            continue
        columns = line.split("\t")
        if len(columns) != 10:
            raise _columns(source, number, len(columns))
        name, head = columns[0], columns[6]
        if not name.isdecimal():
            match = _OTHER_ID.fullmatch(name)
            if not match:
                raise broken(number, f"'{name}' is not a word number")
            if match.group(2):
                ranges.append((number, int(match.group(1)), int(match.group(2)), columns[1]))
            continue
        words.append(columns[1])
        if int(name) != len(words):
            raise broken(number, f"word number {name} where {len(words)} is due")
        if not head.isdecimal():
            raise broken(number, f"'{head}' is not the number of a syntactic head")
        heads.append(int(head) - 1)
        labels.append(columns[7])
        lines.append(number)
    if not words:
        raise broken(first_line, "a sentence without words")
    for word, head in enumerate(heads):
        if head >= len(words) or head == word:
            raise broken(lines[word], f"word {word + 1} cannot depend on word {head + 1}")
    fault = _no_tree(heads)
    if fault:
        raise broken(lines[fault[0]], f"sentence {sentence} (counted from 0) {fault[1]}")
    if not ranges:
        return Parse(words, list(range(len(words))), heads, labels)
    return _with_ranges(words, heads, labels, ranges, broken)


def _with_ranges(words, heads, labels, ranges, broken) -> Parse:
    surface: list[str] = []
    place: list[int] = []
    for line, first, last, form in ranges:
        if not len(place) < first < last <= len(words):
            raise broken(line, f"words {first}-{last} are not in the sentence or overlap others")
        while len(place) < first - 1:
            place.append(len(surface))
            surface.append(words[len(place) - 1])
        inside = words[first - 1 : last]
        if "".join(inside) != form:
            place.extend([len(surface)] * len(inside))
            surface.append(form)
    while len(place) < len(words):
        place.append(len(surface))
        surface.append(words[len(place) - 1])
    return Parse(surface, place, heads, labels)


def _columns(source, line, found) -> UserError:
    return UserError(f"{source}, line {line}: {found} columns instead of CoNLL-U's 10")


def _plain(path: Path):
    """The file opened for reading bytes: itself, or an unpacked copy with plain line ends and no
    byte order mark."""
    file = open(path, "rb")
    start = file.read(4)
    packed = start[:2] == b"\x1f\x8b"
    marked = start.startswith((codecs.BOM_UTF8, *_BOM_UTF16))
    windows = marked or packed or any(b"\r" in block for block in iter(lambda: file.read(_BLOCK), b""))
    file.seek(0)
    if not windows:
        return file
    copy = tempfile.TemporaryFile()
    with file, gzip.open(file) if packed else file as lines:
        for number, line in enumerate(lines):
            if number == 0:
                if line.startswith(_BOM_UTF16):
                    raise UserError(f"{path} is UTF-16 text: save it as UTF-8")
                line = line.removeprefix(codecs.BOM_UTF8)
            copy.write(line.rstrip(b"\r\n") + b"\n")
    copy.seek(0)
    return copy


class ConlluFile:
    """The sentences of a CoNLL-U file by number: ``len(trees)``, ``trees[17]``.

    Opening reads the file once, checks the number of columns and notes where sentences are (24
    bytes a sentence); a sentence is parsed when it is asked for. A .gz file, or one with Windows
    line ends or a byte order mark, is copied into a temporary file that goes away with this object.
    """

    def __init__(self, path):
        self.path = Path(path)
        self._starts, self._ends, self._lines = array("q"), array("q"), array("q")
        try:
            self._file = _plain(self.path)
            self._index()
            self._bytes = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) if len(self) else b""
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or error
            raise UserError(f"cannot read the parses {path}: {why}") from None
        if not len(self):
            raise UserError(f"{path} holds no sentences: give a CoNLL-U file")

    def _index(self):
        offset, line, rest, block = 0, 1, b"", b"-"
        while block:
            block = self._file.read(_BLOCK)
            # Sentences end with an empty line; the last one is given one in case it lacks it.
            *parts, rest = (rest + (block or b"\n\n")).split(b"\n\n")
            for part in parts:
                self._note(part, offset, line)
                offset += len(part) + 2
                line += part.count(b"\n") + 2

    def _note(self, part: bytes, offset: int, line: int):
        """Note a sentence that is preceded by comments; ``line`` is the number of its first line."""
        begin = 0
        while part[begin : begin + 1] in (b"#", b"\n"):
            begin = part.find(b"\n", begin) + 1
            line += 1
            if not begin:
                return
        if not part[begin:].strip():
            return
        self._starts.append(offset + begin)
        self._ends.append(offset + len(part))
        self._lines.append(line)
        if part.count(b"\t", begin) != 9 * (part.count(b"\n", begin) + 1):
            for number, text in enumerate(part[begin:].split(b"\n"), line):
                columns = text.count(b"\t") + 1
                if text.strip() and text[:1] != b"#" and columns != 10:
                    raise _columns(self.path, number, columns)

    def __len__(self):
        return len(self._lines)

    def __getitem__(self, number: int) -> Parse:
        """Sentence ``number``, counted from 0."""
        block = self._bytes[self._starts[number] : self._ends[number]]
        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(
                f"{self.path}, line {self._lines[number]}: the sentence is not UTF-8 text"
            ) from None
        return parse_block(text, str(self.path), self._lines[number], number)

    def close(self):
        """Close the file."""
        self._bytes.close()
        self._file.close()
