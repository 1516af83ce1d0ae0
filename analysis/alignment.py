"""Tokens and words of a tree held against each other by their characters."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from fairseq_headprune.analysis.words import bare, language_tag, spell

_TREEBANK = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_TREEBANK_MARK = re.compile(r"\\([/*])")
"""What parsers write as the Penn Treebank does: brackets as words of their own, a slash or
star behind ``\\``."""

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


def align(tokens: Sequence[str], parse_words: Sequence[str]) -> Alignment:
    """Align tokens (no EOS) to the words of a parse by their characters.

    White space inside words does not count. ``<unk>`` matches any characters, provided that what
    is left and right of it leaves one reading. Where the plain characters differ, both sides are
    compared once more without case and with one form of quotes, dashes and widths, then with the
    parse's ``-LRB-`` and ``\\/`` as ``(`` and ``/`` unless the tokens spell them so. `Misfit` when that
    fails too. A leading language tag that the parse lacks is in no unit.
    """
    tag = language_tag(tokens)
    if tag and not "".join(parse_words).startswith("".join(map(bare, tokens[:tag]))):
        rest = align(tokens[tag:], parse_words)
        return Alignment([start + tag for start in rest.starts], rest.unit_of_word)
    if not tokens or not parse_words:
        raise Misfit("no tokens" if not tokens else "no words in the parse")
    pieces, ends = spell(tokens)
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
