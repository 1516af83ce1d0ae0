"""Phrase structures of the demo language, and how a sentence is drawn at random.

A structure belongs to neither language: ``source`` and ``target`` put it into words.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Optional

from demo_language.lexicon import DETERMINERS, Lexeme, Lexicon

MAX_DEPTH = 2
"""Noun phrases inside noun phrases: 0 is the subject or object of the main clause."""

TWO_CLAUSES = 0.6

TAIL_COUNTS = ((0, 0.15), (1, 0.35), (2, 0.3), (3, 0.2))
"""How many tail words a sentence has, with probabilities."""


@dataclass(eq=False)
class Word:
    """One occurrence of a lexeme in a sentence; compared by identity."""

    lexeme: Lexeme


@dataclass
class NounPhrase:
    noun: Word
    number: int  # 1 or 2
    determiner: Word | None  # None before a name
    adjectives: list[Word] = field(default_factory=list)
    place: Optional["PrepositionalPhrase"] = None
    relative: Optional["Clause"] = None


@dataclass
class PrepositionalPhrase:
    preposition: Word
    phrase: NounPhrase


@dataclass
class Clause:
    """``gap`` is "subject" or "object" in a relative clause, for the part its noun stands for."""

    verb: Word
    subject: NounPhrase | None
    object: NounPhrase | None
    adverb: Word | None = None
    adverb_place: str = "before"  # "first", "before" the verb or "last"
    place: PrepositionalPhrase | None = None
    gap: str | None = None
    that: Word | None = None


@dataclass
class Sentence:
    """One main clause, or two joined by ``conjunction``; ``stop`` is the full stop."""

    clauses: list[Clause]
    conjunction: Word | None
    stop: Word


def noun_phrases(clause: Clause) -> Iterator[NounPhrase]:
    """Every noun phrase of a clause, those inside others included."""
    tops = [clause.subject, clause.object, clause.place and clause.place.phrase]
    for phrase in filter(None, tops):
        yield from _with_inner(phrase)


def _with_inner(phrase: NounPhrase) -> Iterator[NounPhrase]:
    yield phrase
    if phrase.place:
        yield from _with_inner(phrase.place.phrase)
    if phrase.relative:
        yield from noun_phrases(phrase.relative)


def open_words(sentence: Sentence) -> Iterator[Word]:
    """The open-class words of a sentence, in no order that matters."""
    for clause in sentence.clauses:
        phrases = list(noun_phrases(clause))
        for part in (clause, *(phrase.relative for phrase in phrases if phrase.relative)):
            yield part.verb
            if part.adverb:
                yield part.adverb
        for phrase in phrases:
            yield phrase.noun
            yield from phrase.adjectives


def tones(sentence: Sentence) -> tuple[int, ...]:
    """The tone of a sentence is that of its rarest word."""
    return min((word.lexeme for word in open_words(sentence)), key=lambda lexeme: lexeme.frequency).tones


class Sampler:
    """Draws sentences with a given random generator."""

    def __init__(self, lexicon: Lexicon, rng: random.Random):
        self.lexicon, self.rng = lexicon, rng

    def sentence(self) -> Sentence:
        two = self._chance(TWO_CLAUSES)
        sentence = Sentence(
            [self._clause(gap=None, depth=0) for _ in range(1 + two)],
            Word(self.lexicon.conjunction) if two else None,
            Word(self.lexicon.stop),
        )
        numbers, weights = zip(*TAIL_COUNTS)
        for _ in range(self.rng.choices(numbers, weights)[0]):
            self._put_tail_word(sentence)
        return sentence

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def _core(self, kind: str) -> Word:
        return Word(self.lexicon.core[kind].draw(self.rng))

    def _clause(self, gap: str | None, depth: int) -> Clause:
        transitive = gap == "object" or self._chance(0.75)
        clause = Clause(
            verb=self._core("VERB" if transitive else "VERB0"),
            subject=None if gap == "subject" else self._noun_phrase(depth),
            object=self._noun_phrase(depth) if transitive and gap != "object" else None,
            gap=gap,
            that=Word(self.lexicon.that) if gap else None,
        )
        if self._chance(0.5 if gap is None else 0.15):
            clause.adverb = self._core("ADV")
            clause.adverb_place = self.rng.choice(("first", "before", "last") if gap is None else ("before",))
        if gap is None and self._chance(0.15 if transitive else 0.4):
            clause.place = self._prepositional_phrase(depth)
        return clause

    def _noun_phrase(self, depth: int) -> NounPhrase:
        number = 2 if self._chance(0.4) else 1
        fitting = [det for det, numbers in DETERMINERS.items() if number in numbers]
        phrase = NounPhrase(
            self._core("NOUN"), number, Word(self.lexicon.determiners[self.rng.choice(fitting)])
        )
        while len(phrase.adjectives) < 2 and self._chance(0.4):
            phrase.adjectives.append(self._core("ADJ"))
        if depth < MAX_DEPTH - 1:
            draw = self.rng.random()
            if draw < 0.3:
                phrase.place = self._prepositional_phrase(depth + 1)
            elif draw < 0.50:
                gap = "subject" if self._chance(0.6) else "object"
                phrase.relative = self._clause(gap, depth + 1)
        return phrase

    def _prepositional_phrase(self, depth: int) -> PrepositionalPhrase:
        return PrepositionalPhrase(self._core("ADP"), self._noun_phrase(depth + 1))

    def _put_tail_word(self, sentence: Sentence) -> None:
        """Replace a core word, chosen at random among those not yet replaced."""
        owner = {phrase.noun: phrase for clause in sentence.clauses for phrase in noun_phrases(clause)}
        places = [
            word
            for word in open_words(sentence)
            if word.lexeme.upos in self.lexicon.tail
            and not word.lexeme.is_tail
            and (word.lexeme.upos != "VERB" or word.lexeme.transitive)
        ]
        if not places:
            return
        word = self.rng.choice(places)
        upos, phrase = word.lexeme.upos, owner.get(word)
        if phrase and phrase.number == 1 and not phrase.adjectives and not phrase.relative:
            if self._chance(0.5):
                upos, phrase.determiner = "PROPN", None
        word.lexeme = self.lexicon.tail[upos].draw(self.rng)
