"""A whole pass over a dump: the same numbers as the slow reference, and planted roles come back."""

import random

import numpy as np
import pytest

from fairseq_headprune.analysis.frequencies import Frequencies
from fairseq_headprune.analysis.parses import ConlluFile, relation_name
from fairseq_headprune.analysis.roles import stream
from fairseq_headprune.analysis.roles import tables as roles_tables
from fairseq_headprune.analysis.roles.heads import Thresholds, functions
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.dump import open_dump
from fairseq_headprune.units.layout import HeadLayout
from tests.helpers.dumps import EOS, conllu_text, pointing, random_attention, write_dump
from tests.reference import head_roles

RELATIONS = ("nsubj", "obj", "amod")
DISTANCES = {"1": [1], "2": [2], "3-4": [3, 4], "5-8": range(5, 9), "9+": range(9, 99)}


def analyse(path, tmp_path, trees=None, counts=None, top=500, types=("enc_self",), relations=RELATIONS):
    """heads.json's content (without provenance) and the pass itself."""
    dump = open_dump(path)
    if trees is not None:
        (tmp_path / "trees.conllu").write_text(conllu_text(trees), encoding="utf-8")
        trees = ConlluFile(tmp_path / "trees.conllu")
    frequencies = None
    if counts is not None:
        frequencies = Frequencies(counts, top)
    analysis = stream.Analysis(dump, types, trees, relations, False, frequencies)
    unaligned = []
    stream.run(dump, analysis, 0, 0, lambda shard, position, bad: unaligned.extend(bad))
    content = roles_tables.build(dump, analysis, Thresholds(), resamples=200, level=0.95, seed=1)
    analysis.dump = dump
    return content, analysis, unaligned


def by_head(content, type="enc_self"):
    return {(h["layer"], h["head"]): h for h in content["heads"] if h["type"] == type}


# -- against the slow reference -----------------------------------------------------------


def random_sentence(rng, generator):
    """Words cut into pieces, a tree over them, and attention of three types."""
    words, pieces, units = [], [], []
    for _ in range(rng.choice((0, 1, 1, 2, 5, 9))):
        parts = [rng.choice("abcdefgh") * rng.randint(1, 2) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        units.append(list(range(len(pieces), len(pieces) + len(parts))))
        pieces += [part + "@@" for part in parts[:-1]] + parts[-1:]
        words.append("".join(parts))
    order = rng.sample(range(len(words)), len(words))  # a word depends on one that comes before it here
    tree = []
    for i, word in enumerate(words):
        above = order[: order.index(i)]
        head = rng.choice(above) + 1 if above else 0
        label = rng.choice(("nsubj", "nsubj:pass", "obj", "dobj", "amod", "det")) if head else "root"
        tree.append((word, head, label))
    target = [rng.choice("xyz") for _ in range(rng.choice((0, 1, 4)))]
    s, t = len(pieces) + 1, len(target) + 1
    attention = {
        "enc_self": random_attention(generator, 5, s, s),
        "dec_self": np.tril(random_attention(generator, 4, t, t)),
        "dec_enc": random_attention(generator, 3, t, s),
    }
    attention["enc_self"][1] = np.round(attention["enc_self"][1], 1)  # ties, and rows of zeros
    attention["enc_self"][2] = 1 / s
    relevance = {"enc_self": generator.random((t, 5)), "dec_enc": generator.random((t, 3))}
    relevance["enc_self"][:, :2] *= generator.integers(0, 2)
    return {
        "source": pieces, "target": target, "attention": attention, "relevance": relevance,
        "tree": tree, "units": units,
    }  # fmt: skip


LAYOUT = HeadLayout(((0, 2), (), (0, 1, 3)), ((1,), (0, 1, 2)), ((0,), (1, 2)))


@pytest.fixture(scope="module")
def random_case(tmp_path_factory):
    directory = tmp_path_factory.mktemp("random")
    rng, generator = random.Random(3), np.random.default_rng(3)
    sentences = [random_sentence(rng, generator) for _ in range(150)]
    trees = [s["tree"] or [("_", 0, "root")] for s in sentences]
    order = list(range(150))
    rng.shuffle(order)  # generation does not write sentences in the order of their ids
    write_dump(
        directory / "dump", [dict(sentences[i], id=i) for i in order], LAYOUT,
        types=("enc_self", "dec_self", "dec_enc"), relevance=("enc_self", "dec_enc"), heads=4,
        shard_bytes=20_000,
    )  # fmt: skip
    counts = {piece: n for n, piece in enumerate(sorted({t for s in sentences for t in s["source"]}))}
    content, analysis, _ = analyse(
        directory / "dump",
        directory,
        trees,
        counts,
        top=6,
        types=("enc_self", "dec_self", "dec_enc"),
    )
    halves = [
        {t: s["attention"][t].astype(np.float16).astype(float) for t in s["attention"]} for s in sentences
    ]
    return sentences, halves, counts, content, analysis


@pytest.mark.parametrize("type", ["enc_self", "dec_self", "dec_enc"])
def test_confidence_and_positions_as_the_reference(random_case, type):
    sentences, halves, _, content, _ = random_case
    heads = [h for h in content["heads"] if h["type"] == type]
    assert [(h["layer"], h["head"]) for h in heads] == [
        (layer, head) for layer, kept in enumerate(LAYOUT[type]) for head in kept
    ]
    for i, head in enumerate(heads):
        cases = [
            (half[type][i], [*s["source"], EOS], [*s["target"], EOS]) for s, half in zip(sentences, halves)
        ]
        total, rows, votes, ties, blank = head_roles.confidence_and_positions(cases, type)
        assert head["confidence"] == pytest.approx(total / rows, abs=1e-5)
        assert head["confidence_n"] == head["positional"]["n"] == rows
        assert head["confidence_low"] <= head["confidence"] <= head["confidence_high"]
        assert head["ties"] == pytest.approx(ties / rows, abs=1e-6)
        assert head["blank"] == pytest.approx(blank / rows, abs=1e-6)
        offset = head["positional"]["offset"]
        assert float(votes[offset]) == pytest.approx(float(max(votes.values())), abs=1e-4)
        assert head["positional"]["share"] == pytest.approx(float(votes[offset]) / rows, abs=1e-5)
        chances = head_roles.possible(cases, type, offset)
        assert head["positional"]["n_possible"] == chances
        assert head["positional"]["share_possible"] == pytest.approx(float(votes[offset]) / chances, abs=1e-5)


@pytest.mark.parametrize("over", ["pairs", "words"])
def test_syntactic_as_the_reference(random_case, over):
    sentences, halves, _, content, analysis = random_case
    if over == "words":
        limits = Thresholds(syntactic_over=over)
        content = roles_tables.build(analysis.dump, analysis, limits, resamples=200, level=0.95, seed=1)
    heads = [h for h in content["heads"] if h["type"] == "enc_self"]
    assert analysis.counts["parsed_sentences"] == sum(bool(s["source"]) for s in sentences)
    for i, head in enumerate(heads):
        cases = []
        for sentence, half in zip(sentences, halves):
            if sentence["source"]:
                parse = [(h - 1, relation_name(label)) for _, h, label in sentence["tree"]]
                cases.append(
                    (half["enc_self"][i], [*sentence["source"], EOS], sentence["units"],
                     range(len(parse)), parse)
                )  # fmt: skip
        expected = head_roles.syntactic(cases, RELATIONS)
        for (relation, direction), (votes, queries, offsets, pairs) in expected.items():
            measured = head["syntactic"][relation][direction]
            about = content["relations"][relation][direction]
            cases = offsets.total() if over == "pairs" else queries
            assert offsets.total() > queries > 20 or direction == "d->h"
            assert measured["n"] == about["n"] == cases
            assert (about["pairs"], about["words"]) == (offsets.total(), queries)
            assert measured["accuracy"] == pytest.approx(float(votes) / cases, abs=1e-5)
            assert measured["low"] <= measured["accuracy"] <= measured["high"]
            assert about["histogram"] == {str(k): offsets[k] for k in sorted(offsets)}
            assert measured["baseline"] == pytest.approx(max(offsets.values()) / cases, abs=1e-5)
            assert offsets[measured["baseline_offset"]] == max(offsets.values())
            assert measured["gain"] == pytest.approx(measured["accuracy"] - measured["baseline"], abs=2e-6)
            assert measured["gain_low"] <= measured["gain"] <= measured["gain_high"]
            best = measured["baseline_offset"]
            away = [part for _, offset, part in pairs if offset != best]
            assert measured["away_n"] == len(away)
            assert measured["away"] == pytest.approx(float(sum(away)) / len(away), abs=1e-5)
            assert measured["away_low"] <= measured["away"] <= measured["away_high"]
            for name, distances in DISTANCES.items():
                parts = [part for _, offset, part in pairs if abs(offset) in distances]
                assert about["distances"][name] == len(parts)
                mean = pytest.approx(float(sum(parts)) / len(parts), abs=1e-5) if parts else None
                assert measured["by_distance"][name] == mean
            assert measured["gain_p"] == pytest.approx(head_roles.sign_test(pairs, best), rel=0.01)
    tests = [m for head in heads for r in head["syntactic"].values() for m in r.values()]
    adjusted = head_roles.holm([m["gain_p"] for m in tests])
    assert [m["gain_p_holm"] for m in tests] == pytest.approx(adjusted, rel=0.02)


def test_both_directions_have_one_baseline(random_case):
    relations = random_case[3]["relations"]
    assert any(r["h->d"]["pairs"] > r["h->d"]["words"] for r in relations.values())
    for directions in relations.values():
        there, back = directions["h->d"], directions["d->h"]
        assert there["baseline"] == back["baseline"]
        assert there["histogram"] == {str(-int(k)): n for k, n in reversed(back["histogram"].items())}


def test_rare_as_the_reference(random_case):
    sentences, halves, counts, content, _ = random_case
    counts = {t: n for t, n in counts.items() if n}
    heads = [h for h in content["heads"] if h["type"] == "enc_self"]
    for i, head in enumerate(heads):
        cases = [(half["enc_self"][i], [*s["source"], EOS]) for s, half in zip(sentences, halves)]
        first, two, rows = head_roles.rare(cases, counts, 6)
        measured = head["rare"]
        assert measured["n"] == rows > 100
        assert measured["rarest"] == pytest.approx(float(first) / rows, abs=1e-5)
        assert measured["two_rarest"] == pytest.approx(float(two) / rows, abs=1e-5)
    uniform = heads[2]["rare"]
    assert uniform["rarest"] == pytest.approx(uniform["rarest_chance"], abs=1e-6)
    assert uniform["two_rarest"] == pytest.approx(uniform["two_rarest_chance"], abs=1e-6)


def test_relevance_as_the_reference(random_case):
    sentences, _, _, content, _ = random_case
    for type in ("enc_self", "dec_enc"):
        heads = [h for h in content["heads"] if h["type"] == type]
        layers = [h["layer"] for h in heads]
        for i, head in enumerate(heads):
            arrays = [s["relevance"][type].astype(np.float32) for s in sentences]
            total, steps = head_roles.relevance(arrays, layers, i)
            assert head["relevance"] == pytest.approx(total / steps, abs=1e-5)
            assert head["relevance_n"] == steps
    assert all(h["relevance"] is None for h in content["heads"] if h["type"] == "dec_self")


# -- planted roles --------------------------------------------------------------------------


def planted(tmp_path, behaviours, lengths, trees=None, counts=None, top=2, layout=None, texts=None):
    """Analyse a dump of ``len(lengths)`` sentences in which head i does ``behaviours[i](sentence,
    size)``: the key it points at for every query, None for equal weights."""
    sentences = []
    for number, size in enumerate(lengths):
        maps = [pointing(behave(number, size), size) if size else np.ones((1, 1)) for behave in behaviours]
        source = texts[number] if texts else [f"w{i}" for i in range(size)]
        sentences.append({"source": source, "attention": {"enc_self": np.array(maps)}})
    layout = layout or HeadLayout((tuple(range(len(behaviours))),), ((),), ((),))
    write_dump(tmp_path / "dump", sentences, layout, heads=len(behaviours) + 1)
    content, _, _ = analyse(tmp_path / "dump", tmp_path, trees, counts, top)
    return [h for h in content["heads"]]


def shift(offset, misses=()):
    """Point at query + offset; where there is no such key, and for the ``misses`` (sentence,
    query), at a key that is as far away as can be."""

    def behave(number, size):
        keys = []
        for query in range(size):
            key = query + offset
            if not 0 <= key < size or (number, query) in misses:
                key = 0 if query > size // 2 else size - 1
            keys.append(key)
        return keys

    return behave


def equal(number, size):
    return [None] * size


def test_positional_heads_at_95_and_85_percent(tmp_path):
    # 20 sentences of 20 tokens: 400 rows, of which 20 (5 %) have no token before them.
    misses = {(s, q) for s in range(20) for q in (5, 10)}
    heads = planted(tmp_path, [shift(-1), shift(-1, misses), shift(1), equal], [20] * 20)
    first, second, third, uniform = heads
    assert (first["positional"]["offset"], first["positional"]["share"]) == (-1, 0.95)
    assert first["positional"]["share_possible"] == 1
    assert first["functions"] == ["positional -1"]
    assert (second["positional"]["offset"], second["positional"]["share"]) == (-1, 0.85)
    assert second["functions"] == []
    assert third["functions"] == ["positional +1"]
    assert uniform["functions"] == [] and uniform["ties"] == 1
    assert first["confidence"] == pytest.approx(0.9, abs=1e-3)
    assert uniform["confidence"] == pytest.approx(0.98 / 20, abs=1e-3)
    assert first["positional"]["low"] == first["positional"]["high"] == 0.95  # all sentences alike


def test_a_perfect_positional_head_of_short_sentences(tmp_path):
    # 9 tokens: the first has none before it, so that 8 of 9 rows (89 %) are all that can be had.
    (head,) = planted(tmp_path, [shift(-1)], [9] * 20)
    assert head["positional"]["share"] == pytest.approx(8 / 9)
    assert head["positional"]["share_possible"] == 1
    assert head["functions"] == ["positional -1"]
    strict = Thresholds(positional_over="all")
    assert functions({**head, "syntactic": None, "rare": None}, strict) == []


SVO = [("w0", 2, "det"), ("w1", 3, "nsubj"), ("w2", 0, "root"), ("w3", 5, "amod"), ("w4", 3, "obj")]
"""A subject right before its verb."""
SAVO = [
    ("w0", 3, "nsubj"),
    ("w1", 3, "advmod"),
    ("w2", 0, "root"),
    ("w3", 5, "amod"),
    ("w4", 3, "obj"),
]
"""A subject two words before it."""
SAAVO = [
    ("w0", 4, "nsubj"),
    ("w1", 4, "advmod"),
    ("w2", 4, "advmod"),
    ("w3", 0, "root"),
    ("w4", 4, "obj"),
]


def test_subject_found_in_60_percent_where_the_best_position_finds_45(tmp_path):
    trees = [SVO] * 45 + [SAVO] * 30 + [SAAVO] * 25
    verb = [next(i for i, (_, head, _) in enumerate(tree) if head == 0) for tree in trees]
    subject = [next(i for i, (*_, r) in enumerate(tree) if r == "nsubj") for tree in trees]

    def finder(number, size):
        keys = [0] * size
        keys[verb[number]] = subject[number] if number % 5 < 3 else 4
        return keys

    heads = planted(tmp_path, [finder, equal], [5] * 100, trees)
    found = heads[0]["syntactic"]["nsubj"]["h->d"]
    assert (found["accuracy"], found["baseline"], found["baseline_offset"], found["n"]) == (
        0.6, 0.45, -1, 100
    )  # fmt: skip
    assert found["gain"] == 0.15 and found["gain_low"] < 0.15 < found["gain_high"]
    assert heads[0]["functions"] == ["syntactic nsubj h->d"]
    uniform = heads[1]["syntactic"]["nsubj"]
    assert uniform["h->d"]["accuracy"] == uniform["d->h"]["accuracy"] == 0.2
    assert heads[1]["functions"] == []


def test_rare_word_head(tmp_path):
    counts = {"the": 900, "a": 800, "dog": 30, "newt": 2, "axolotl": 1}
    texts = [["the", "newt", "dog", "axolotl", "a"]] * 50 + [["the", "a", "the", "a", "the"]] * 10

    def rare(number, size):
        return [3, 3, 3, 1, 0]  # the rarest from three of five tokens, the second rarest from one

    heads = planted(tmp_path, [rare, equal], [5] * 60, counts=counts, texts=texts)
    measured = heads[0]["rare"]
    assert (measured["rarest"], measured["two_rarest"], measured["n"]) == (0.6, 0.8, 250)
    assert (measured["rarest_chance"], measured["two_rarest_chance"]) == (0.2, 0.4)
    assert heads[0]["functions"] == ["rare words"]
    assert heads[1]["rare"]["two_rarest"] == pytest.approx(0.4) and heads[1]["functions"] == []


def test_sentences_of_one_word_and_of_none(tmp_path):
    heads = planted(tmp_path, [shift(-1), equal], [0, 1, 20, 0, 20, 1, 20])
    assert heads[0]["positional"]["n"] == 62
    assert heads[0]["positional"]["share"] == pytest.approx(57 / 62, abs=1e-6)
    assert heads[0]["functions"] == ["positional -1"]
    assert heads[1]["functions"] == []


def test_only_empty_sentences(tmp_path):
    heads = planted(tmp_path, [shift(-1)], [0, 0], trees=[[("_", 0, "root")]] * 2, counts={"a": 1})
    assert heads[0]["confidence"] is None and heads[0]["confidence_n"] == 0
    assert heads[0]["positional"]["offset"] is None
    assert heads[0]["rare"]["two_rarest"] is None
    assert heads[0]["syntactic"]["nsubj"]["h->d"]["accuracy"] is None
    assert heads[0]["functions"] == []


def test_removed_heads_have_no_record(tmp_path):
    layout = HeadLayout(((2,), (), (0,)), ((), (), ()), ((), (), ()))
    heads = planted(tmp_path, [shift(-1), shift(1)], [20] * 5, layout=layout)
    assert [(h["layer"], h["head"], h["functions"]) for h in heads] == [
        (0, 2, ["positional -1"]),
        (2, 0, ["positional +1"]),
    ]


def test_far_positions_are_counted(tmp_path):
    heads = planted(tmp_path, [lambda number, size: [size - 1] * size], [50] * 3)
    assert heads[0]["positional"]["share"] == pytest.approx(1 / 50)

    def far(number, size):  # 40 back from the last ten tokens, elsewhere never the same position
        return [q - 40 if q >= 40 else (q * q) % size for q in range(size)]

    (head,) = planted(tmp_path / "far", [far], [50] * 3)
    assert (head["positional"]["offset"], head["positional"]["share"]) == (-40, 0.2)
    assert head["positional"]["n_possible"] == 30 and head["positional"]["low"] is None


# -- what does not fit ----------------------------------------------------------------------


def test_unaligned_sentences_are_listed(tmp_path):
    sentences = [{"source": [f"w{i}" for i in range(5)],
                  "attention": {"enc_self": np.full((1, 1, 6, 6), 1 / 6)}}] * 3  # fmt: skip
    path = write_dump(tmp_path / "dump", sentences)
    other = [(form + "x", head, label) for form, head, label in SVO]
    content, analysis, unaligned = analyse(path, tmp_path, [SVO, other, SVO])
    assert [(u.id, u.reason) for u in unaligned] == [
        (1, "tokens read 'w0w1w2w3w4', the parse 'w0xw1xw2xw3xw4'")
    ]
    assert analysis.counts["unaligned_sentences"] == 1
    assert content["relations"]["nsubj"]["h->d"]["n"] == 2
    assert by_head(content)[0, 0]["confidence_n"] == 15  # the other measures need no parse


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 3])
def test_numbers_that_are_no_weights(tmp_path, value):
    attention = np.full((1, 1, 3, 3), 1 / 3)
    attention[0, 0, 1, 0] = value
    good = {"source": ["a", "b"], "attention": {"enc_self": np.full((1, 1, 3, 3), 1 / 3)}}
    path = write_dump(tmp_path / "dump", [good, dict(good, attention={"enc_self": attention})])
    with pytest.raises(UserError, match="sentence 1 of the dump has enc-self numbers that are no"):
        analyse(path, tmp_path)


def test_words_that_share_a_unit_ask_one_question(tmp_path):
    # "do n't" and "don 't" have no boundary in common; both words have the same subject.
    tree = [("I", 2, "nsubj"), ("do", 0, "root"), ("n't", 2, "advmod")]
    tree_of_both = [("I", 3, "nsubj"), ("do", 3, "nsubj"), ("n't", 0, "root")]
    sentence = {
        "source": ["I", "don", "&apos;t"],
        "attention": {"enc_self": np.full((1, 1, 4, 4), 0.25)},
    }
    path = write_dump(tmp_path / "dump", [sentence, sentence])
    content, analysis, _ = analyse(path, tmp_path, [tree, tree_of_both], relations=("nsubj", "advmod"))
    assert analysis.counts["relations_inside_a_word"] == 2
    assert analysis.counts["merged_words"] == 2
    assert content["relations"]["nsubj"]["h->d"]["n"] == 2
    assert content["relations"]["nsubj"]["h->d"]["pairs"] == 2
    assert content["relations"]["advmod"]["h->d"]["n"] == 0
