"""The translation of every sentence is the one that its dependency tree alone gives."""

import random

import conllu
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_language import corpus, source, target
from demo_language.lexicon import Lexicon
from demo_language.phrases import Sampler
from tests.reference.demo_translation import TreeTranslator

LEXICON, REFERENCE = Lexicon(), TreeTranslator()


def pair(seed):
    sentence = Sampler(LEXICON, random.Random(seed)).sentence()
    return corpus.Pair(source.tokens(sentence), target.words(sentence, LEXICON))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_translation_equals_that_of_the_tree(seed):
    drawn = pair(seed)
    (tree,) = conllu.parse(corpus.conllu_sentence(drawn, "x"))
    assert REFERENCE.translate(tree) == drawn.translation


def test_endings_show_the_word_before_and_the_rarest_word():
    """Both demands on endings decide some: the roles that heads are to learn depend on it."""
    seen = set()
    for seed in range(300):
        sentence = Sampler(LEXICON, random.Random(seed)).sentence()
        words = source.tokens(sentence)
        for left, word in zip(words, words[1:]):
            ending = target.endings(sentence)[word.word]
            seen.add((left.word.lexeme.link, ending))
    # the link of the word before is the least that an ending can be; the rarest word raises it
    assert seen == {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)}
