"""Second scoring of hypotheses: batches for it, what each sentence gets, and the options."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.recording.generator import groups, head_attention, head_relevance, pairs
from fairseq_headprune.recording.maps import record_attention
from fairseq_headprune.recording.options import RecordOptions
from fairseq_headprune.units.layout import ATTENTION_TYPES
from tests.helpers.small_models import dictionary, small_transformer

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=12)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 20), st.integers(1, 100_000))
def test_groups_keep_the_order_and_the_limit(lengths, heads, cells):
    source, target = [s for s, _ in lengths], [t for _, t in lengths]
    parts = list(groups(source, target, heads, cells))
    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(len(lengths)))

    def size(start, stop):
        S, T = max(source[start:stop]), max(target[start:stop])
        return (stop - start) * heads * (S * S + T * T + S * T)

    for part in parts:
        assert part.stop == part.start + 1 or size(part.start, part.stop) <= cells
        # as large as possible: one sentence more would not have fitted
        assert part.stop == len(lengths) or size(part.start, part.stop + 1) > cells


def sentences(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    eos = dictionary(12).eos()

    def one(length):
        words = torch.randint(4, 16, (length - 1,), generator=generator)
        return torch.cat([words, torch.tensor([eos])])

    return [one(s) for s, _ in lengths], [one(t) for _, t in lengths]


def test_pairs_are_what_fairseq_feeds_its_models():
    symbols = dictionary(12)
    pad, eos = symbols.pad(), symbols.eos()
    source, target = torch.tensor([7, 8, eos]), torch.tensor([9, 10, 11, eos])
    batch = pairs([source, source[1:]], [target, target[2:]], pad, eos)
    assert batch.src_tokens.tolist() == [[7, 8, eos], [pad, 8, eos]]
    assert batch.src_lengths.tolist() == [3, 2] and batch.target_lengths == [4, 2]
    assert batch.prev_output_tokens.tolist() == [[eos, 9, 10, 11], [eos, 11, pad, pad]]
    assert batch.target.tolist() == [[9, 10, 11, eos], [11, eos, pad, pad]]


@pytest.fixture(scope="module")
def model():
    return small_transformer()


LENGTHS_OF_A_BATCH = [(6, 3), (2, 7), (1, 1), (4, 4)]


def test_attention_is_that_of_each_sentence_alone(model):
    symbols = dictionary(12)
    source, target = sentences(LENGTHS_OF_A_BATCH)
    together = head_attention(model, pairs(source, target, symbols.pad(), symbols.eos()), ATTENTION_TYPES)
    for n, (s, t) in enumerate(zip(source, target)):
        prev = torch.cat([t[-1:], t[:-1]])[None]
        with torch.no_grad(), record_attention(model) as maps:
            model(s[None], torch.tensor([len(s)]), prev)
        for key in ATTENTION_TYPES:
            alone = torch.cat([layer[0] for layer in maps[key]]).numpy()
            assert together[n][key].dtype == np.float16
            np.testing.assert_allclose(together[n][key], alone, atol=6e-4)


@pytest.mark.parametrize("start", ["top1", "emitted"])
def test_relevance_is_that_of_each_sentence_alone(model, start):
    symbols = dictionary(12)
    source, target = sentences(LENGTHS_OF_A_BATCH)
    rules = dict(rule="z-plus", start=start, attention="full")

    def relevance(s, t):
        return head_relevance(model, pairs(s, t, symbols.pad(), symbols.eos()), **rules)

    for n, one in enumerate(relevance(source, target)):
        alone = relevance(source[n : n + 1], target[n : n + 1])[0]
        for key in ATTENTION_TYPES:
            assert one[key].shape == (LENGTHS_OF_A_BATCH[n][1], 2, 4)
            np.testing.assert_allclose(one[key], alone[key], rtol=1e-4, atol=1e-6)


def options(**changes):
    base = dict(
        head_relevance=None,
        relevance_start="top1",
        relevance_attention=None,
        relevance_max_tokens=None,
        relevance_stabiliser=None,
        relevance_table=None,
        dump_attention=None,
        dump_types="all",
    )
    return SimpleNamespace(**{**base, **changes})


@pytest.mark.parametrize(
    "given, active, rules, types",
    [
        ({}, False, {}, ()),
        ({"dump_attention": "d"}, True, {}, ATTENTION_TYPES),
        ({"dump_attention": "d", "dump_types": "dec-enc"}, True, {}, ("dec_enc",)),
        (
            {"head_relevance": "alpha-beta"},
            True,
            {"rule": "alpha-beta", "start": "top1", "attention": "full"},
            (),
        ),
        (
            {"head_relevance": "epsilon", "relevance_start": "emitted"},
            True,
            {"rule": "epsilon", "start": "emitted", "attention": "values"},
            (),
        ),
        (
            {"head_relevance": "appendix-a2", "relevance_stabiliser": 1e-3},
            True,
            {"rule": "appendix-a2", "start": "top1", "attention": "full", "stabiliser": 1e-3},
            (),
        ),
        (
            {"head_relevance": "z-plus", "dump_attention": "d", "dump_types": "none"},
            True,
            {"rule": "z-plus", "start": "top1", "attention": "full"},
            (),
        ),
    ],
)
def test_options(given, active, rules, types):
    wanted = RecordOptions.of(options(**given))
    assert (wanted.active, dict(wanted.rules), wanted.attention_types) == (active, rules, types)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"head_relevance": "lrp"}, "--head-relevance is 'lrp'"),
        ({"relevance_start": "x"}, "--relevance-start is 'x'"),
        ({"relevance_attention": "keys"}, "--relevance-attention is 'keys'"),
        ({"head_relevance": "epsilon", "relevance_attention": "full"}, "full is not defined for"),
        (
            {"head_relevance": "z-plus", "relevance_stabiliser": 0.1},
            "rule z-plus has no stabiliser: leave --relevance-stabiliser out or use rule epsilon or",
        ),
        (
            {"head_relevance": "epsilon", "relevance_stabiliser": -1.0},
            "--relevance-stabiliser must be a number of at least 0",
        ),
        ({"relevance_stabiliser": 0.1}, "--relevance-stabiliser needs --head-relevance"),
        ({"relevance_table": "t.json"}, "--relevance-table needs --head-relevance"),
        ({"dump_attention": "d", "dump_types": "cross"}, "--dump-types: unknown attention type"),
        ({"dump_attention": "d", "dump_types": "none"}, "leaves nothing to dump"),
        ({"head_relevance": ""}, "--head-relevance is ''"),
        ({"head_relevance": "z-plus", "relevance_table": ""}, "--relevance-table is empty"),
        ({"dump_attention": " "}, "--dump-attention is empty"),
        (
            {"head_relevance": "z-plus", "relevance_table": "./d", "dump_attention": "d/"},
            "--relevance-table and --dump-attention are both",
        ),
        ({"relevance_max_tokens": 9}, "--relevance-max-tokens needs --head-relevance"),
        (
            {"head_relevance": "z-plus", "relevance_max_tokens": 0},
            "--relevance-max-tokens 0 must be at least 1",
        ),
        ({"relevance_attention": "values"}, "--relevance-attention needs --head-relevance"),
        ({"relevance_start": "emitted"}, "--relevance-start needs --head-relevance"),
        ({"dump_types": "enc-self"}, "--dump-types needs --dump-attention"),
        ({"dump_types": ""}, "--dump-types needs --dump-attention"),
    ],
)
def test_options_that_make_no_sense_are_named(given, words):
    with pytest.raises(UserError, match=words):
        RecordOptions.of(options(**given))
