"""From fairseq-generate's output to scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.translation import scoring

OUTPUT = """2020-01-01 | INFO | something
S-1\tb b
T-1\tB B
H-1\t-0.5\tB C
D-1\t-0.5\tB C
P-1\t-0.1 -0.2
S-0\ta
T-0\tA
H-0\t-0.25\tA
Generate test with beam=5: BLEU4 = 0.00
"""


def test_sentences_come_back_in_the_order_of_the_set():
    parsed = scoring.parse_generate(OUTPUT, expected=2)
    assert parsed == scoring.Translations(("a", "b b"), ("A", "B B"), ("A", "B C"))


def test_of_several_hypotheses_the_first_counts():
    text = OUTPUT.replace("D-1", "H-1\t-0.9\tworse\nD-1", 1)
    assert scoring.parse_generate(text).hypotheses == ("A", "B C")


def test_an_empty_hypothesis_is_one():
    assert scoring.parse_generate(OUTPUT.replace("H-0\t-0.25\tA", "H-0\t-0.25\t")).hypotheses[0] == ""


@pytest.mark.parametrize(
    "text, expected, message",
    [
        (OUTPUT.replace("H-0", "X-0"), None, "1 hypotheses for 2 sources"),
        (OUTPUT.replace("-0\t", "-2\t"), None, "translate the set again"),
        (OUTPUT, 3, "2 sentences, the test set has 3"),
        (OUTPUT.replace("T-0", "X-0"), None, "1 references for 2 sources"),
        ("", None, "0 hypotheses for 0 sources"),
    ],
)
def test_missing_sentences_stop_the_scoring(text, expected, message):
    with pytest.raises(UserError, match=message):
        scoring.parse_generate(text, expected=expected)


def test_detokenisation_joins_split_hyphens_and_unescapes():
    assert scoring.detokenize(["Ein T @-@ Shirt &amp; ein &quot; Hut &quot; ."], "de") == [
        'Ein T-Shirt & ein "Hut".'
    ]


def test_length_classes_cover_every_sentence_once():
    hypotheses = [f"a b c {i} e" for i in range(30)]
    records = scoring.by_length(hypotheses, hypotheses, list(range(1, 31)))
    assert [(r["over"], r["up_to"], r["sentences"]) for r in records] == [
        (0, 10, 10),
        (10, 15, 5),
        (15, 20, 5),
        (20, None, 10),
    ]
    assert records[0]["bleu"] == pytest.approx(100)


words = st.lists(st.sampled_from("der die das Hund Ball rot".split()), min_size=1, max_size=12).map(" ".join)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_summed_sentence_statistics_give_corpus_bleu(pairs):
    hypotheses, references = map(list, zip(*pairs))
    summed = scoring.sentence_statistics(hypotheses, references).sum(0)
    assert scoring.bleu_of(summed) == pytest.approx(
        BLEU().corpus_score(hypotheses, [references]).score, abs=1e-9
    )


def test_paired_bootstrap_sees_a_difference_and_sees_none():
    rng = np.random.default_rng(1)
    vocabulary = np.array([f"w{i}" for i in range(50)])
    references = [" ".join(rng.choice(vocabulary, 12)) for _ in range(60)]

    def damaged(share):
        return [" ".join(w if rng.random() > share else "x" for w in line.split()) for line in references]

    good, bad = damaged(0.1), damaged(0.4)
    result = scoring.paired(bad, good, references, resamples=200)
    assert result["high"] < 0 and result["p"] < 0.02
    assert result["low"] < result["difference"] < result["high"]
    same = scoring.paired(good, good, references, resamples=200)
    assert same["difference"] == same["low"] == same["high"] == 0 and same["p"] == 1


def test_scores_carry_their_signatures():
    scores = scoring.score(["a b c d"], ["a b c d"])
    assert scores["bleu"] == pytest.approx(100) and "tok:13a" in scores["signature"]
    with pytest.raises(UserError, match="not one set"):
        scoring.score(["a"], ["a", "b"])
