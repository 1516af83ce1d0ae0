"""Pieces to words, and parse words to tokens by their characters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_headprune.analysis.alignment import Misfit, align
from fairseq_headprune.analysis.words import word_texts, words
from tests.reference import head_roles

TABLE = [
    # tokens, words of the parse, first token of each unit, unit of each word
    ("a man .", "a man .", [0, 1, 2], [0, 1, 2]),
    ("co@@ t@@ ton on", "cotton on", [0, 3], [0, 1]),
    ("▁cot ton ▁on", "cotton on", [0, 2], [0, 1]),
    ("▁ Hello ▁", "Hello", [0], [0]),
    ("dirt @-@ bi@@ kes", "dirt-bikes", [0], [0]),
    ("dirt @-@ bikes", "dirt - bikes", [0, 1, 2], [0, 1, 2]),
    ("@@@ -@@ @ x", "- x", [0, 3], [0, 1]),
    ("woman &apos;s AT@@ &amp;@@ T", "woman 's AT&T", [0, 1, 2], [0, 1, 2]),
    ("&lt; &gt; &#91; &#93; &#124; &quot;", '< > [ ] | "', [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),
    # Boundaries that only one side has: the words share a unit.
    ("don &apos;t go", "do n't go", [0, 2], [0, 0, 1]),
    ("d@@ on &@@ ap@@ os@@ ;@@ t go", "do n't go", [0, 7], [0, 0, 1]),
    # A boundary inside a model word that both sides have: the words are told apart.
    ("can@@ not go", "can not go", [0, 1, 2], [0, 1, 2]),
    ("x @ y", "x @ y", [0, 1, 2], [0, 1, 2]),
    ("@@ y", "@@ y", [0, 1], [0, 1]),
    # Unknown tokens.
    ("a <unk> c", "a bbb c", [0, 1, 2], [0, 1, 2]),
    ("<unk> <unk> c", "a bb c", [0, 2], [0, 0, 1]),
    ("<unk> , <unk> , d", "a , b , d", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
    ("fran@@ <unk> ois", "françois", [0], [0]),
    ("<unk>", "a b", [0], [0, 0]),
    ("x <unk> l@@ t@@ ; y", "x < y", [0, 1, 5], [0, 1, 2]),
    ("é <unk> <unk> 9@@ 1@@ ; y", "é [ y", [0, 1, 6], [0, 1, 2]),
    ("<unk> <unk> #@@ 9@@ 1@@ ; y", "¿ [ y", [0, 1, 6], [0, 1, 2]),
    # Bytes that spell a character, and some that spell none.
    ("▁ <0xC3> <0xA9> t ▁x", "ét x", [0, 4], [0, 1]),
    ("▁a <0xC3> <0xA9> ▁x", "a é x", [0, 1, 3], [0, 1, 2]),
    ("▁ <0xF0> <0x9F> <0x98> <0x80> <0xC3> <0xA9> .", "😀 é .", [0, 5, 7], [0, 1, 2]),
    ("▁a <unk> <0xC3> <0xA9>", "a b é", [0, 1, 2], [0, 1, 2]),
    # A leading language tag that the tree lacks, and one that it has.
    ("<2de> a man", "a man", [1, 2], [0, 1]),
    ("__de__ don &apos;t go", "do n't go", [1, 3], [0, 0, 1]),
    ("▁ >>deu<< ▁a <unk>", "a man", [2, 3], [0, 1]),
    ("[de_DE] a", "a", [1], [0]),
    ("<2de> a man", "<2de> a man", [0, 1, 2], [0, 1, 2]),
    ("a <2de>", "a <2de>", [0, 1], [0, 1]),
    # The Penn Treebank's escapes, in the parse alone or in the text itself.
    ("a ( b ) .", "a -LRB- b -RRB- .", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
    ("( &#91; { x } &#93; )", "-lrb- -LSB- -LCB- x -RCB- -RSB- -RRB-", [*range(7)], [*range(7)]),
    ("1@@ / 2 * x", "1\\/2 \\* x", [0, 3, 4], [0, 1, 2]),
    ("1 / 2", "1\\/2", [0], [0]),
    ("-LRB- a", "-LRB- a", [0, 1], [0, 1]),
    ("-@@ LRB- is (", "-LRB- is -LRB-", [0, 2, 3], [0, 1, 2]),
    ("( <unk> )", "-LRB- x -RRB-", [0, 1, 2], [0, 1, 2]),
    ("“ ( a", "`` -LRB- A", [0, 1, 2], [0, 1, 2]),
    # The same text written in another way.
    ("The “ dog ”", "the `` dog ''", [0, 1, 2, 3], [0, 1, 2, 3]),
    ("ﬁne – yes", "fine - yes", [0, 1, 2], [0, 1, 2]),
]


@pytest.mark.parametrize("tokens, parse, starts, unit_of_word", TABLE)
def test_align(tokens, parse, starts, unit_of_word):
    assert align(tokens.split(" "), parse.split(" ")) == (starts, unit_of_word)


@pytest.mark.parametrize(
    "tokens, parse, message",
    [
        ("a b", "a c", "tokens read 'ab', the parse 'ac'"),
        ("a b c", "a b", "tokens read 'abc', the parse 'ab'"),
        ("<unk> a <unk> d", "aa a a d", "more than one reading"),
        ("x <unk>", "x", "tokens read"),
        ("<unk> y", "y", "tokens read"),
        ("", "a", "no tokens"),
        ("<2de>", "a", "no tokens"),
        ("a <2de> b", "a b", "tokens read 'a<2de>b', the parse 'ab'"),
        ("▁ <0xC3> x", "é x", "tokens read"),
        ("▁a <0xC3>", "a", "tokens read"),
        ("-LRB- x", "( x", "tokens read"),
        ("( x", "-LSB- x", "tokens read"),
    ],
)
def test_align_refuses(tokens, parse, message):
    with pytest.raises(Misfit, match=message):
        align(tokens.split(), parse.split())


def test_words_of_pieces():
    assert words("co@@ t@@ ton on .".split()) == [[0, 1, 2], [3], [4]]
    assert words("▁the ▁cot ton .".split()) == [[0], [1, 2, 3]]
    assert words("▁a <unk> b".split()) == [[0], [1, 2]]
    assert words([]) == []
    assert word_texts("▁caf <0xC3> <0xA9> ▁x".split()) == ["café", "x"]
    assert word_texts("a wom@@ an &apos;s dirt @-@ bike".split()) == [
        "a",
        "woman",
        "'s",
        "dirt",
        "-",
        "bike",
    ]


letters = st.text("abc", min_size=1, max_size=4)


@st.composite
def two_cuts(draw):
    """One text cut twice: into tokens and into words."""
    text = "".join(draw(st.lists(letters, min_size=1, max_size=6)))
    cuts = st.sets(st.integers(1, max(1, len(text) - 1)), max_size=len(text) - 1)

    def cut(at):
        edges = [0, *sorted(c for c in at if c < len(text)), len(text)]
        return [text[a:b] for a, b in zip(edges, edges[1:])]

    return cut(draw(cuts)), cut(draw(cuts))


@settings(deadline=None)
@given(two_cuts(), st.randoms())
def test_align_is_what_sharing_characters_gives(cuts, random):
    pieces, parse = cuts
    tokens = [piece + random.choice(("", "@@")) for piece in pieces]
    groups, unit_of_word = head_roles.units(pieces, parse)
    assert align(tokens, parse) == ([group[0] for group in groups], unit_of_word)
