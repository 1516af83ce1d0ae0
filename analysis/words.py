"""From the model's tokens to words: what text a token stands for, and which tokens make a word.

Order of merging, fixed (README.md, "Words"): choose the head, leave the end of sentence out, add
the weights of all pieces of the attended word, average over the pieces of the attending word; only
then is the largest weight looked for. Nothing is renormalised in between.

Pure Python, no attention in here: only tokens, words and characters.
"""

import codecs
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

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

_TREEBANK = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_TREEBANK_MARK = re.compile(r"\\([/*])")
"""What parsers write as the Penn Treebank does: brackets as words of their own, a slash or star behind ``\\``."""

# Variants of one character that tokenizers and treebanks write differently.
_SAME = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'",
                       "`": "'", "´": "'", "–": "-", "—": "-", "‐": "-", "‑": "-", "−": "-"})  # fmt: skip


class Alignment(NamedTuple):
    """Tokens and words of one sentence cut into units: the shortest stretches of characters at
    whose ends both a token and a word end. Nearly always a unit is one word."""

    starts: list[int]
    """First token of each unit."""
    unit_of_word: list[int]
    """Unit of each word of the parse."""


class Misfit(ValueError):
    """Tokens and words that are not the same characters. The message says where they part."""


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
    return length if len(tokens) >= length and _TAG.fullmatch(_bare(tokens[length - 1])) else 0


def align(tokens: Sequence[str], parse_words: Sequence[str]) -> Alignment:
    """Align tokens (no EOS) to the words of a parse by their characters.

    White space inside words does not count. ``<unk>`` matches any characters, provided that what
    is left and right of it leaves one reading. Where the plain characters differ, both sides are
    compared once more without case and with one form of quotes, dashes and widths, then with the
    parse's ``-LRB-`` and ``\\/`` as ``(`` and ``/`` unless the tokens spell them so. `Misfit` when that
    fails too. A leading language tag that the parse lacks is in no unit.
    """
    tag = language_tag(tokens)
    if tag and not "".join(parse_words).startswith("".join(map(_bare, tokens[:tag]))):
        rest = align(tokens[tag:], parse_words)
        return Alignment([start + tag for start in rest.starts], rest.unit_of_word)
    if not tokens or not parse_words:
        raise Misfit("no tokens" if not tokens else "no words in the parse")
    pieces, ends = _spell(tokens)
    if None in pieces or "".join(pieces) != "".join(parse_words):
        parse_words, token_ends = _fit(pieces, parse_words)
    else:
        token_ends = list(accumulate(map(len, pieces)))
    if ends:
        token_ends = [place if allowed else -1 for place, allowed in zip(token_ends, ends)]
    word_ends = list(accumulate(map(len, parse_words)))
    # Nearly always every word ends where a token does, and nothing is without characters.
    behind = dict(zip(token_ends, range(1, len(tokens) + 1)))
    distinct = set(word_ends)
    if len(behind) == len(tokens) and len(distinct) == len(word_ends) and behind.keys() >= distinct:
        starts = [0, *map(behind.__getitem__, word_ends)]
        starts.pop()
        return Alignment(starts, list(range(len(word_ends))))
    return _units(token_ends, word_ends)


def _fit(pieces, parse_words) -> tuple[Sequence[str], list[int]]:
    """Words, and where each token ends in their text, when texts are not simply equal."""
    plain = ["".join(word.split()) for word in parse_words]
    same = [None if piece is None else _normalise(piece) for piece in pieces]
    first = None
    for texts, forms in (
        (pieces, plain),
        (same, list(map(_normalise, plain))),
        (same, _without_treebank_escapes(same, plain)),
    ):
        try:
            return forms, _token_ends(texts, "".join(forms))
        except Misfit as misfit:
            first = first or misfit
    raise first


def _without_treebank_escapes(pieces, parse_words) -> list[str]:
    """Words, both sides normalised, with the Penn Treebank's escapes undone but for those that the tokens
    spell themselves; which these are cannot be told behind an unknown token."""
    text = "".join("\0" if piece is None else piece for piece in pieces)
    result, place = [], 0
    for word in parse_words:
        form = _normalise(word)
        if not text.startswith(form, place):
            form = _normalise(_TREEBANK_MARK.sub(r"\1", _TREEBANK.get(word.upper(), word)))
        result.append(form)
        place += len(form)
    return result


# -- characters of tokens ---------------------------------------------------------------


def plain_texts(tokens: Sequence[str]) -> list[str] | None:
    """Text of each token, or None for a sentence with tokens that have to be looked at in context:
    unknown ones, bytes, and those that may be part of an escape."""
    texts = list(map(_PLAIN.__getitem__, tokens))
    return None if None in texts else texts


class _Plain(dict[str, str | None]):
    """Token -> its text, found when it is asked for the first time; None if that needs context."""

    def __missing__(self, token):
        bare = _bare(token)
        in_context = (
            token in UNKNOWN
            or _BYTE.fullmatch(token)
            or any(mark in _ENTITY.sub("", bare) for mark in "&;@#")
        )
        self[token] = None if in_context else unescape(bare)
        return self[token]


_PLAIN = _Plain()


def _spell(tokens: Sequence[str]) -> tuple[list[str | None], list[bool] | None]:
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
            following = "".join(map(_bare, tokens[place + 1 : place + 6]))
            if following.startswith(_BEHIND_AND):
                result[place] = "&" + JOINER
            elif place and tokens[place - 1] in UNKNOWN and following.startswith(_BEHIND_NUMBER):
                result[place - 1 : place + 1] = ["&" + JOINER, "#" + JOINER]
    return result


def _spell_run(run, pieces, ends):
    """Append text and end of each piece of ``run``; a character that was escaped belongs to the
    piece in which its escape opens."""
    bare = _bare_texts(run)
    stops = list(accumulate(map(len, bare)))
    texts = [""] * len(run)
    atom_ends = {0}
    for atom in _ATOM.finditer("".join(bare)):
        texts[bisect_right(stops, atom.start())] += ENTITIES.get(atom.group(), atom.group())
        atom_ends.add(atom.end())
    pieces.extend(texts)
    ends.extend(stop in atom_ends for stop in stops)


def _bare(token: str) -> str:
    """The token without the marks of ``@@`` and ``▁``."""
    if token.endswith(JOINER) and token != JOINER:
        token = token[: -len(JOINER)]
    return token.replace(WORD_START, "")


def _bare_texts(tokens: Sequence[str]) -> list[str]:
    """`_bare` of each; a character that is spelled in bytes belongs to the piece of its last byte."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = []
    for token in tokens:
        byte = _BYTE.fullmatch(token)
        # a byte that no other follows ends here: what it leaves is a character that no text has
        texts.append(decoder.decode(bytes.fromhex(byte[1]) if byte else b"", not byte))
        if not byte:
            texts[-1] += _bare(token)
    if texts:
        texts[-1] += decoder.decode(b"", True)
    return texts


def unescape(text: str) -> str:
    """Text without the Moses tokenizer's escapes: ``&apos;s`` -> ``'s``."""
    return _ENTITY.sub(lambda match: ENTITIES[match.group()], text)


def _normalise(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold().translate(_SAME)
    return "".join(text.split()).replace("''", '"')


# -- characters against characters ------------------------------------------------------


def _token_ends(pieces, text) -> list[int]:
    """Where in ``text`` each token ends; -1 where that is not known. `Misfit` when it is not the
    text of the tokens."""
    if None in pieces:
        return _around_unknown(pieces, text)
    if "".join(pieces) != text:
        raise Misfit(_difference("".join(pieces), text))
    return list(accumulate(map(len, pieces)))


def _around_unknown(pieces, text) -> list[int]:
    """`_token_ends` with unknown pieces: the known stretches are looked for from the left and from
    the right, and the reading is accepted when both searches find the same places."""
    stretches = _stretches(pieces)
    last = len(text) - len(stretches[-1])
    found, position = [0], len(stretches[0])
    for stretch in stretches[1:-1]:
        found.append(text.find(stretch, position + 1))
        position = found[-1] + len(stretch)
    found.append(last)
    fits = text.startswith(stretches[0]) and text.endswith(stretches[-1]) and position < last
    if not fits or -1 in found:
        raise Misfit(_difference("?".join(stretches), text))
    position = last
    for stretch, place in zip(stretches[-2:0:-1], found[-2:0:-1]):
        position = text.rfind(stretch, 0, position - 1)
        if position != place:
            raise Misfit("unknown tokens leave more than one reading")

    places, number, position = [], 0, 0
    for piece, following in zip(pieces, [*pieces[1:], ""]):
        if piece is not None:
            position += len(piece)
            places.append(position)
        elif following is None:
            places.append(-1)
        else:
            number += 1
            position = found[number]
            places.append(position)
    return places


def _stretches(pieces) -> list[str]:
    """Known text between runs of unknown pieces, with empty text at an end that is unknown."""
    result, previous = [""], ""
    for piece in pieces:
        if piece is not None:
            result[-1] += piece
        elif previous is not None:
            result.append("")
        previous = piece
    return result


def _units(token_ends, word_ends) -> Alignment:
    """Cut both at the places where both end. What has no characters goes with what follows it."""
    starts, unit_of_word = [0], []
    word = 0
    for token, end in enumerate(token_ends):
        while word < len(word_ends) and word_ends[word] < end:
            unit_of_word.append(len(starts) - 1)
            word += 1
        if word < len(word_ends) and word_ends[word] == end:
            unit_of_word.append(len(starts) - 1)
            word += 1
            starts.append(token + 1)
    starts.pop()
    unit_of_word.extend([len(starts) - 1] * (len(word_ends) - word))
    return Alignment(starts, unit_of_word)


def _difference(tokens: str, text: str, width: int = 12) -> str:
    """Where two texts part: ``tokens read '...', the parse '...'``."""
    same = 0
    while same < min(len(tokens), len(text)) and tokens[same] == text[same]:
        same += 1
    start = max(0, same - 4)
    return f"tokens read '{tokens[start : same + width]}', the parse '{text[start : same + width]}'"
