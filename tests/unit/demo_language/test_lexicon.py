"""The words of the demo language: all different, with a long tail that byte pairs take apart."""

import random
from collections import Counter

from demo_language import source
from demo_language.lexicon import LINKS, Lexicon, zipf
from demo_language.phrases import Sampler, open_words

LEXICON = Lexicon()
LEXEMES = [lexeme for kind in (*LEXICON.core.values(), *LEXICON.tail.values()) for lexeme in kind.lexemes]


def test_the_lexicon_is_always_the_same():
    assert [*Lexicon().tail["NOUN"].lexemes] == LEXICON.tail["NOUN"].lexemes


def test_no_two_words_look_alike():
    for forms in (
        [lexeme.source for lexeme in LEXEMES],
        [lexeme.target + lexeme.stem for lexeme in LEXEMES],
        [*LEXICON.article.values(), *LEXICON.auxiliary.values()],
    ):
        assert len(set(forms)) == len(forms)


def test_shares_add_up_to_one():
    for kind in (*LEXICON.core.values(), *LEXICON.tail.values()):
        assert abs(sum(lexeme.weight for lexeme in kind.lexemes) - 1) < 1e-9


def test_zipf_shares_fall_and_add_up():
    weights = zipf(50)
    assert weights == sorted(weights, reverse=True) and abs(sum(weights) - 1) < 1e-9


def test_every_link_and_tone_is_in_use():
    assert {lexeme.link for lexeme in LEXEMES} == set(range(LINKS))
    for kind in range(4):
        assert {lexeme.tones[kind] for lexeme in LEXEMES} == {0, 1, 2}


def test_frequencies_are_what_sentences_show():
    """The rarest word of a sentence is found by them."""
    count, draws = Counter(), 4000
    sampler = Sampler(LEXICON, random.Random(1))
    for _ in range(draws):
        count.update(word.lexeme.source for word in open_words(sampler.sentence()))
    for lexeme in LEXEMES:
        if lexeme.frequency > 0.05 and not lexeme.is_tail and lexeme.upos != "ADP":
            assert 0.7 < count[lexeme.source] / draws / lexeme.frequency < 1.4, lexeme


def test_sentences_have_a_long_tail_of_rare_words():
    sampler, words = Sampler(LEXICON, random.Random(2)), Counter()
    with_tail, sentences = 0, 3000
    for _ in range(sentences):
        tokens = source.tokens(sampler.sentence())
        words.update(token.lemma for token in tokens)
        with_tail += any(token.word.lexeme.is_tail for token in tokens)
    assert 0.75 < with_tail / sentences < 0.95
    once = sum(n == 1 for n in words.values())
    assert once > 100 and max(words.values()) > 1000
