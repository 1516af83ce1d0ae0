"""Trees of the demo language: one root, no cycles, no crossing arcs, and what relations join."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_language import source
from demo_language.lexicon import Lexicon
from demo_language.phrases import Sampler

LEXICON = Lexicon()


def tokens(seed):
    return source.tokens(Sampler(LEXICON, random.Random(seed)).sentence())


seeds = st.integers(0, 2**32)


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_every_word_hangs_from_the_one_root(seed):
    words = tokens(seed)
    assert [w.deprel for w in words if w.head is None] == ["root"]
    for word in words:
        for _ in words:
            word = word.head or word
        assert word.head is None, "a cycle"


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_trees_are_projective(seed):
    """Every word between a word and its head hangs from that head, directly or not."""
    words = tokens(seed)
    place = {id(word): i for i, word in enumerate(words)}
    for word in words:
        if word.head is None:
            continue
        low, high = sorted((place[id(word)], place[id(word.head)]))
        for between in words[low + 1 : high]:
            while between.head is not None and between is not word.head:
                between = between.head
            assert between is word.head


JOINS = {
    "det": ("DET", "NOUN"), "amod": ("ADJ", "NOUN"), "case": ("ADP", "NOUN"),
    "nsubj": ("NOUN", "VERB"), "obj": ("NOUN", "VERB"), "obl": ("NOUN", "VERB"),
    "nmod": ("NOUN", "NOUN"), "advmod": ("ADV", "VERB"), "acl:relcl": ("VERB", "NOUN"),
    "conj": ("VERB", "VERB"), "cc": ("CCONJ", "VERB"), "punct": ("PUNCT", "VERB"),
}  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_relations_join_the_word_classes_that_they_are_for(seed):
    for word in tokens(seed):
        if word.head is None:
            assert word.upos == "VERB"
            continue
        kinds = ["NOUN" if w.upos in ("PROPN", "PRON") else w.upos for w in (word, word.head)]
        assert tuple(kinds) == JOINS[word.deprel]


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_every_clause_has_a_subject_and_only_transitive_verbs_an_object(seed):
    words = tokens(seed)
    for verb in (w for w in words if w.upos == "VERB"):
        relations = [w.deprel for w in words if w.head is verb]
        assert relations.count("nsubj") == 1
        assert relations.count("obj") == verb.word.lexeme.transitive


@pytest.mark.parametrize("seed", range(20))
def test_determiners_agree_with_their_noun(seed):
    for word in tokens(seed):
        if word.deprel == "det":
            noun = word.head
            assert word.lemma != "a" or noun.number == 1
            assert word.lemma != "these" or noun.number == 2
            assert noun.form == noun.lemma + ("s" if noun.number == 2 else "")


def test_every_relation_and_word_class_occurs():
    words = [word for seed in range(300) for word in tokens(seed)]
    assert {word.deprel for word in words} == {*JOINS, "root"}
    assert "an" in {word.form for word in words}
    assert {w.upos for w in words} == {
        "NOUN", "PROPN", "VERB", "ADJ", "ADV", "ADP", "DET", "PRON", "CCONJ", "PUNCT",
    }  # fmt: skip
