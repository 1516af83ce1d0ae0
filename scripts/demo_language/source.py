"""The source language: English word order, with the dependency tree of every sentence."""

from dataclasses import dataclass
from typing import Optional

from demo_language.phrases import Clause, NounPhrase, PrepositionalPhrase, Sentence, Word

NUMBERS = {1: "Sing", 2: "Plur"}


@dataclass(eq=False)
class Token:
    """A word of the source sentence; ``head`` is the token it depends on, None for the root."""

    form: str
    lemma: str
    upos: str
    deprel: str
    head: Optional["Token"] = None
    number: int | None = None
    word: Word | None = None


def tokens(sentence: Sentence) -> list[Token]:
    """The words of a sentence in order, each pointing to its head (Universal Dependencies)."""
    words, root = _clause(sentence.clauses[0], "root", None)
    if sentence.conjunction:
        second, verb = _clause(sentence.clauses[1], "conj", root)
        words += [_token(sentence.conjunction, "cc", verb), *second]
    return words + [_token(sentence.stop, "punct", root)]


def _token(word: Word, deprel: str, head: Token | None) -> Token:
    lexeme = word.lexeme
    return Token(lexeme.source, lexeme.source, lexeme.upos, deprel, head, word=word)


def _clause(clause: Clause, deprel: str, head: Token | None):
    verb = _token(clause.verb, deprel, head)
    that = [_token(clause.that, "nsubj" if clause.gap == "subject" else "obj", verb)] if clause.gap else []
    subject = _noun_phrase(clause.subject, "nsubj", verb) if clause.subject else []
    obj = _noun_phrase(clause.object, "obj", verb) if clause.object else []
    place = _prepositional_phrase(clause.place, "obl", verb) if clause.place else []
    adverb = {"first": [], "before": [], "last": []}
    if clause.adverb:
        adverb[clause.adverb_place] = [_token(clause.adverb, "advmod", verb)]
    words = [
        *adverb["first"],
        *that,
        *subject,
        *adverb["before"],
        verb,
        *obj,
        *place,
        *adverb["last"],
    ]
    return words, verb


def _noun_phrase(phrase: NounPhrase, deprel: str, head: Token) -> list[Token]:
    noun = _token(phrase.noun, deprel, head)
    noun.number = phrase.number
    if phrase.number == 2:
        noun.form += "s"
    words = [*(_token(adjective, "amod", noun) for adjective in phrase.adjectives), noun]
    if phrase.determiner:
        determiner = _token(phrase.determiner, "det", noun)
        if determiner.form == "a" and words[0].form[0] in "aeiou":
            determiner.form = "an"
        words.insert(0, determiner)
    if phrase.place:
        words += _prepositional_phrase(phrase.place, "nmod", noun)
    if phrase.relative:
        words += _clause(phrase.relative, "acl:relcl", noun)[0]
    return words


def _prepositional_phrase(place: PrepositionalPhrase, deprel: str, head: Token) -> list[Token]:
    words = _noun_phrase(place.phrase, deprel, head)
    noun = next(word for word in words if word.head is head)
    return [_token(place.preposition, "case", noun), *words]
