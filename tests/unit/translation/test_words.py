"""Token ids as text, and that unknown words earn nothing."""

import pytest
from fairseq.data import Dictionary

from fairseq_headprune.translation import scoring


def dictionary(*symbols):
    made = Dictionary()
    for symbol in symbols:
        made.add_symbol(symbol)
    return made


@pytest.mark.parametrize(
    "symbols, text",
    [
        (("the@@", "se", "cats"), "these cats"),
        (("\u2581the", "se", "\u2581cats"), "these cats"),
    ],
)
def test_pieces_become_words(symbols, text):
    made = dictionary(*symbols)
    ids = made.encode_line(" ".join(symbols), add_if_not_exist=False)
    assert scoring.words(made, ids, scoring.splitting(made.symbols)) == text


def test_remove_bpe_is_taken_as_fairseq_takes_it():
    made = dictionary("a@@", "b", "\u2581c")  # found to be SentencePiece; the option wins
    ids = made.encode_line("a@@ b", add_if_not_exist=False)
    assert scoring.words(made, ids, "@@ ") == made.string(ids, "@@ ") == "ab"


def test_unknown_is_escaped_in_references_alone():
    made = dictionary("cats")
    ids = made.encode_line("dogs cats", add_if_not_exist=False, append_eos=False)
    assert scoring.words(made, ids, "subword_nmt") == "<unk> cats"
    assert (
        scoring.words(made, ids, "subword_nmt", reference=True)
        == made.string(ids, escape_unk=True)
        == "<<unk>> cats"
    )


@pytest.mark.parametrize("tokenized", [True, False])
def test_unknown_words_earn_no_credit(tokenized):
    ours, theirs = ["<unk> <unk> <unk> <unk> <unk>"] * 3, ["<<unk>> <<unk>> <<unk>> <<unk>> <<unk>>"] * 3
    if tokenized:
        ours, theirs = scoring.detokenize(ours, "en"), scoring.detokenize(theirs, "en")
    found = scoring.score(ours, theirs)
    assert found["bleu"] == 0 and found["chrf"] == 0
    statistics = scoring.sentence_statistics(ours, theirs)
    assert scoring.bleu_of(statistics.sum(0)) == 0
    assert statistics[0, :2].tolist() == [5, 5], "an unknown word is one word on both sides"
    assert scoring.score(["a <unk> b c d e"], ["a <<unk>> b c d e"])["bleu"] < 100


def test_folders_say_how_their_words_are_split(tmp_path):
    (tmp_path / "dict.en.txt").write_text("the 3\ncats 2\n")
    assert scoring.splitting_of(str(tmp_path)) == "subword_nmt"
    (tmp_path / "dict.pt.txt").write_text("\u2581os 3\n", encoding="utf-8")
    assert scoring.splitting_of(str(tmp_path)) == "sentencepiece"
