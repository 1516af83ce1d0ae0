"""From the model's tokens to words: what text a token stands for, and which tokens make a word.

Order of merging, fixed (README.md, "Words"): choose the head, leave the end of sentence out, add
the weights of all pieces of the attended word, average over the pieces of the attending word; only
then is the largest weight looked for. Nothing is renormalised in between.

Pure Python, no attention in here: only tokens, words and characters.
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

EOS = "</s>"
UNKNOWN = {"<unk>", "<<unk>>", "⁇", "▁⁇"}
"""Tokens that stand for text the model's dictionary lacks."""

JOINER = "@@"
WORD_START = "▁"

ENTITIES = {
    "@-@": "-",
    "&apos;": "'",
    "&quot;": '"',
    "&lt;": "<",
    "&gt;": ">",
    "&#91;": "[",
    "&#93;": "]",
    "&#124;": "|",
    "&bar;": "|",
    "&amp;": "&",
}
"""What the Moses tokenizer writes for characters that it escapes, and for a hyphen it splits off."""

_BEHIND_AND = tuple(entity[1:] for entity in ENTITIES if entity[0] == "&")
_BEHIND_NUMBER = tuple(entity[2:] for entity in ENTITIES if entity[:2] == "&#")
_ENTITY = re.compile("|".join(map(re.escape, ENTITIES)))
_ATOM = re.compile(_ENTITY.pattern + "|.", re.DOTALL)

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
"""A piece of SentencePiece's byte fallback: one byte of a character that is not in the vocabulary."""

_TAG = re.compile(
    r"<2\w[\w-]+>|__[A-Za-z]{2,3}(_[A-Za-z]+)?__|>>[A-Za-z]{2,3}(_[A-Za-z]+)?<<|\[[a-z]{2}_[A-Z]{2}\]"
)
"""What multilingual models put before a sentence to name a language."""


def words(tokens: Sequence[str]) -> list[list[int]]:
    """Positions of the pieces of each model word: ``co@@ t@@ ton on`` -> [[0, 1, 2], [3]].

    A piece that ends in ``@@`` goes with the next one; where ``▁`` occurs in the sentence, a piece
    without it goes with the one before. EOS must be cut off before.
    """
    sentencepiece = any(token.startswith(WORD_START) for token in tokens)
    groups: list[list[int]] = []
    open_word = False
    for position, token in enumerate(tokens):
        if sentencepiece:
            open_word = position > 0 and not token.startswith(WORD_START) and token not in UNKNOWN
        if open_word:
            groups[-1].append(position)
        else:
            groups.append([position])
        open_word = not sentencepiece and token.endswith(JOINER) and token != JOINER
    return groups


def word_texts(tokens: Sequence[str]) -> list[str]:
    """The words themselves, escapes undone: ``co@@ t@@ ton &apos;s`` -> ["cotton", "'s"]."""
    return [unescape("".join(_bare_texts([tokens[i] for i in group]))) for group in words(tokens)]


def language_tag(tokens: Sequence[str]) -> int:
    """How many tokens at the start name a language: 1 for ``<2de>``, ``__de__``, ``>>deu<<`` or ``[de_DE]``,
    2 for ``▁ <2de>``, otherwise 0."""
    length = 2 if tokens[:1] == [WORD_START] else 1
    return length if len(tokens) >= length and _TAG.fullmatch(bare(tokens[length - 1])) else 0


# -- characters of tokens ---------------------------------------------------------------


def plain_texts(tokens: Sequence[str]) -> list[str] | None:
    """Text of each token, or None for a sentence with tokens that have to be looked at in context:
    unknown ones, bytes, and those that may be part of an escape."""
    texts = list(map(_PLAIN.__getitem__, tokens))
    return None if None in texts else texts


class _Plain(dict[str, str | None]):
    """Token -> its text, found when it is asked for the first time; None if that needs context."""

    def __missing__(self, token):
        text = bare(token)
        in_context = (
            token in UNKNOWN
            or _BYTE.fullmatch(token)
            or any(mark in _ENTITY.sub("", text) for mark in "&;@#")
        )
        self[token] = None if in_context else unescape(text)
        return self[token]


_PLAIN = _Plain()


def spell(tokens: Sequence[str]) -> tuple[list[str | None], list[bool] | None]:
    """Text of each token (None for unknown), and whether a unit may end behind it (None: always).

    A unit may not end inside an escape that was split into pieces (``&@@ apos@@ ;``).
    """
    texts = plain_texts(tokens)
    return _spell_carefully(tokens) if texts is None else (texts, None)


def _spell_carefully(tokens):
    tokens = _known_escapes(tokens)
    pieces: list[str | None] = []
    ends: list[bool] = []
    for group in words(tokens):
        run: list[str] = []
        for token in (tokens[position] for position in group):
            if token in UNKNOWN:  # text on both sides of it is spelled on its own
                _spell_run(run, pieces, ends)
                pieces.append(None)
                ends.append(True)
                run = []
            else:
                run.append(token)
        _spell_run(run, pieces, ends)
    return pieces, ends


def _known_escapes(tokens: Sequence[str]) -> list[str]:
    """Tokens with ``&`` and ``&#`` in place of unknown ones that stand before ``lt;``, ``91;`` and
    the like: Moses text has these characters in escapes alone, and not every dictionary has them.
    """
    result = list(tokens)
    for place, token in enumerate(tokens):
        if token in UNKNOWN:
            following = "".join(map(bare, tokens[place + 1 : place + 6]))
            if following.startswith(_BEHIND_AND):
                result[place] = "&" + JOINER
            elif place and tokens[place - 1] in UNKNOWN and following.startswith(_BEHIND_NUMBER):
                result[place - 1 : place + 1] = ["&" + JOINER, "#" + JOINER]
    return result


def _spell_run(run, pieces, ends):
    """Append text and end of each piece of ``run``; a character that was escaped belongs to the
    piece in which its escape opens."""
    spelled = _bare_texts(run)
    stops = list(accumulate(map(len, spelled)))
    texts = [""] * len(run)
    atom_ends = {0}
    for atom in _ATOM.finditer("".join(spelled)):
        texts[bisect_right(stops, atom.start())] += ENTITIES.get(atom.group(), atom.group())
        atom_ends.add(atom.end())
    pieces.extend(texts)
    ends.extend(stop in atom_ends for stop in stops)


def bare(token: str) -> str:
    """The token without the marks of ``@@`` and ``▁``."""
    if token.endswith(JOINER) and token != JOINER:
        token = token[: -len(JOINER)]
    return token.replace(WORD_START, "")


def _bare_texts(tokens: Sequence[str]) -> list[str]:
    """`bare` of each; a character that is spelled in bytes belongs to the piece of its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = []
    for token in tokens:
        byte = _BYTE.fullmatch(token)
        # a byte that no other follows ends here: what it leaves is a character that no text has
        texts.append(decoder.decode(bytes.fromhex(byte[1]) if byte else b"", not byte))
        if not byte:
            texts[-1] += bare(token)
    if texts:
        texts[-1] += decoder.decode(b"", True)
    return texts


def unescape(text: str) -> str:
    """Text without the Moses tokenizer's escapes: ``&apos;s`` -> ``'s``."""
    return _ENTITY.sub(lambda match: ENTITIES[match.group()], text)
