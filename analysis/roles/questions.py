"""What trees ask of heads: for every word in a wanted relation, which word it is related to.

Works on several sentences of as many tokens at once. Nearly all of them have words that simply end
where tokens do; those are aligned together, the others one by one by `alignment.align`.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from fairseq_headprune.analysis.alignment import Misfit, align
from fairseq_headprune.analysis.merging import Cuts
from fairseq_headprune.analysis.parses import ConlluFile, relation_name
from fairseq_headprune.analysis.words import plain_texts


class Asked(NamedTuple):
    """Questions, sorted by sentence, query word, slot and key word. A slot is a relation in one
    direction: 2 * relation, + 1 for the way from dependent to syntactic head."""

    cuts: Cuts
    sentence: np.ndarray
    query: np.ndarray
    slot: np.ndarray
    key: np.ndarray
    misfits: list[tuple[int, str]]
    """Sentences (by place in the batch) whose parse has another text, and where it differs."""
    merged_words: int
    """Words of the parse that share a unit with another one."""
    inside: int
    """Relations between words that share a unit."""


class Questions:
    """``trees``: parses by sentence id; ``relations``: names as `relation_name` gives them."""

    def __init__(self, trees: ConlluFile, relations: Sequence[str], keep_subtypes: bool):
        self.trees = trees
        self.slots = 2 * len(relations)
        self._slots = _Slots(relations, keep_subtypes)

    def ask(self, ids: Sequence[int], tokens: Sequence[Sequence[str]]) -> Asked:
        """The questions about sentences of equal lengths, in ``tokens`` without EOS."""
        parses = [self.trees[id] for id in ids]
        units, misfits = align_all(tokens, [parse.surface for parse in parses])
        fit = [number for number, of_sentence in enumerate(units) if of_sentence is not None]
        # One entry a word from here on; places count words through all sentences that fit.
        heads, words, unit, slot = [], [], [], []
        first, sizes = [], np.zeros(len(ids), np.int64)
        for number in fit:
            starts, unit_of_surface = units[number]
            parse = parses[number]
            first.append(starts)
            sizes[number] = len(starts)
            words.append(len(parse.heads))
            heads.append(parse.heads)
            slot.append(map(self._slots.__getitem__, parse.labels))
            place = parse.place
            same = len(unit_of_surface) == len(place)
            unit.append(unit_of_surface if same else map(unit_of_surface.__getitem__, place))
        cuts = Cuts.of(_flat(first), sizes, len(tokens[0]))
        heads, slot, unit = _flat(heads), _flat(slot), _flat(unit)
        sentence = np.repeat(np.array(fit, np.int64), words)
        begin = np.repeat(np.cumsum(words) - words, words).astype(np.int64)
        wanted = np.flatnonzero((slot >= 0) & (heads >= 0))
        governor, dependent = unit[begin[wanted] + heads[wanted]], unit[wanted]
        apart = governor != dependent
        codes = _codes(sentence[wanted], governor, dependent, slot[wanted])[:, apart].ravel()
        codes.sort()
        if (codes[1:] == codes[:-1]).any():  # two words that share a unit ask one question
            codes = np.unique(codes)
        columns = [codes >> shift & _PART for shift in (48, 32, 16, 0)]
        return Asked(cuts, *columns, misfits, len(unit) - int(sizes.sum()), len(apart) - int(apart.sum()))


def align_all(tokens, surfaces) -> tuple[list, list[tuple[int, str]]]:
    """`alignment.align` of several sentences of as many tokens: per sentence (first token of each unit,
    unit of each surface form), or None for a misfit; and the misfits with their reasons."""
    units: list = [None] * len(tokens)
    misfits = []
    texts = [plain_texts(of_sentence) for of_sentence in tokens]
    plain = [
        number
        for number, (pieces, forms) in enumerate(zip(texts, surfaces))
        if pieces and "".join(pieces) == "".join(forms) and "" not in pieces and "" not in forms
    ]
    if plain:
        # Their texts are equal: counted through all of them, ends of tokens and words can be compared.
        token_ends = np.cumsum(_lengths(texts[number] for number in plain))
        word_ends = np.cumsum(_lengths(surfaces[number] for number in plain))
        token = np.searchsorted(token_ends, word_ends)
        met = (token_ends[token] == word_ends).tolist()
        starts = np.append(0, token[:-1] + 1) % len(tokens[0])
        starts = starts.tolist()
        begin = 0
        for number in plain:
            end = begin + len(surfaces[number])
            if all(met[begin:end]):
                units[number] = starts[begin:end], range(end - begin)
            begin = end
    for number, pieces in enumerate(tokens):
        if units[number] is None:
            try:
                units[number] = align(pieces, surfaces[number])
            except Misfit as misfit:
                misfits.append((number, str(misfit)))
    return units, misfits


def _lengths(sentences) -> np.ndarray:
    return np.fromiter(map(len, chain.from_iterable(sentences)), np.int64)


_PART = 0xFFFF


def _codes(sentence, governor, dependent, slot) -> np.ndarray:
    """Both directions of every relation as numbers that sort as they should: ``[2, relations]``."""
    base = sentence << 48
    return np.stack(
        [
            base + (governor << 32) + (slot << 16) + dependent,
            base + (dependent << 32) + (slot + 1 << 16) + governor,
        ]
    )


def _flat(parts) -> np.ndarray:
    return np.fromiter(chain.from_iterable(parts), np.int64)


class _Slots(dict):
    """Label of a parse -> its first slot, -1 for relations that nobody wants."""

    def __init__(self, relations, keep_subtypes):
        super().__init__()
        self._relations, self._keep_subtypes = list(relations), keep_subtypes

    def __missing__(self, label):
        name = relation_name(label, self._keep_subtypes)
        self[label] = 2 * self._relations.index(name) if name in self._relations else -1
        return self[label]
