"""Options of a checkpoint against those asked for: what is taken over, what is refused, flags to copy."""

import pytest

from fairseq_headprune.models.architecture import agree, flags, same, spell, typed_options

STOCK = {
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "decoder_embed_dim": 512,
    "decoder_ffn_embed_dim": 2048,
    "dropout": 0.1,
    "encoder_normalize_before": False,
}


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, []),
        ({"dropout": 0.3}, ["--dropout", "0.3"]),
        ({"encoder_normalize_before": True}, ["--encoder-normalize-before"]),
        # a decoder as wide as the encoder needs no flag of its own
        ({"encoder_embed_dim": 128, "decoder_embed_dim": 128}, ["--encoder-embed-dim", "128"]),
        ({"decoder_ffn_embed_dim": 64}, ["--decoder-ffn-embed-dim", "64"]),
        (
            {"share_all_embeddings": True, "share_decoder_input_output_embed": True},
            ["--share-all-embeddings"],
        ),
        ({"share_decoder_input_output_embed": True}, ["--share-decoder-input-output-embed"]),
        ({"quant_noise_pq": 0, "lr": [0.1], "data": "somewhere"}, []),
    ],
)
def test_flags_of_a_checkpoint(change, expected):
    assert flags({**STOCK, **change}) == expected


def test_flags_of_an_imported_model():
    forms = {
        "position_encoding": "marian",
        "decoder_self": "ssru",
        "output_bias": True,
        "decoder_start": "eos",
    }
    assert flags({**STOCK, **forms}) == [
        *("--decoder-self", "ssru", "--position-encoding", "marian", "--output-bias")
    ]
    assert flags({**STOCK, "decoder_output_dim": 64, "adaptive_softmax_cutoff": [8, 16]}) == [
        *("--decoder-output-dim", "64", "--adaptive-softmax-cutoff", "8,16")
    ]


SMALL = {
    **{
        f"{s}_{n}": v for s in ("encoder", "decoder") for n, v in (("embed_dim", 128), ("ffn_embed_dim", 256))
    },
    **{f"{s}_{n}": v for s in ("encoder", "decoder") for n, v in (("attention_heads", 4), ("layers", 3))},
    "activation_fn": "gelu",
    "no_scale_embedding": True,
    "output_bias": True,
}
DEFAULTS = {
    **{
        f"{s}_{n}": v
        for s in ("encoder", "decoder")
        for n, v in (("embed_dim", 512), ("ffn_embed_dim", 2048))
    },
    **{f"{s}_{n}": v for s in ("encoder", "decoder") for n, v in (("attention_heads", 8), ("layers", 6))},
    "activation_fn": "relu",
    "dropout": 0.1,
}


def test_what_nobody_gave_is_taken_from_the_checkpoint():
    decision = agree(SMALL, DEFAULTS)
    assert not decision.refuse
    assert {k: v for k, v in decision.take.items() if k in SMALL} == SMALL
    assert set(decision.take) - set(SMALL) == {"decoder_input_dim", "decoder_output_dim"}
    assert agree(SMALL, {**DEFAULTS, **decision.take}).take == {}


@pytest.mark.parametrize(
    "name, there, asked",
    [
        ("encoder_attention_heads", 4, 2),
        ("decoder_attention_heads", 8, 16),
        ("encoder_layers", 6, 3),
        ("decoder_ffn_embed_dim", 2048, 1024),
        ("activation_fn", "relu", "gelu"),
        ("no_scale_embedding", False, True),
        ("encoder_normalize_before", False, True),
        ("decoder_normalize_before", None, True),
        ("layernorm_embedding", False, True),
        ("encoder_learned_pos", False, True),
        ("share_all_embeddings", False, True),
        ("share_decoder_input_output_embed", False, True),
        ("no_token_positional_embeddings", False, True),
        ("no_decoder_final_norm", False, True),
        ("adaptive_softmax_cutoff", [8, 16], "4,16"),
        ("position_encoding", "hf-marian", "marian"),
        ("decoder_self", "attention", "ssru"),
        ("decoder_start", "pad", "zero"),
        ("output_bias", None, True),
        ("no_unk", False, True),
    ],
)
def test_what_was_given_and_differs_is_refused(name, there, asked):
    for given in ((), (name,)):
        assert agree({**DEFAULTS, name: there}, {**DEFAULTS, name: asked}, given).refuse[name][1] == asked


@pytest.mark.parametrize(
    "name, there, default",
    [
        ("encoder_attention_heads", 4, 8),
        ("activation_fn", "gelu", "relu"),
        ("position_encoding", "marian", "fairseq"),
    ],
)
def test_a_default_is_refused_where_it_was_typed(name, there, default):
    asked = {**DEFAULTS, name: default}
    assert agree({**DEFAULTS, name: there}, asked, {name}).refuse == {name: (there, default)}
    assert agree({**DEFAULTS, name: there}, asked).take == {name: there}


@pytest.mark.parametrize(
    "there, asked",
    [
        (
            {"dropout": 0.3, "encoder_layerdrop": 0.2},
            {"dropout": 0.0},
        ),  # of the training, not of the function
        ({"max_source_positions": 64}, {"max_source_positions": 1024}),  # sines reach as far as is asked
        (
            {"share_all_embeddings": True, "share_decoder_input_output_embed": True},
            {"share_all_embeddings": True},
        ),
        (
            {"no_scale_embedding": 0, "adaptive_softmax_cutoff": "[8, 16]"},
            {"adaptive_softmax_cutoff": [8, 16]},
        ),
        ({"gate_stretch_low": None}, {"gate_stretch_low": -0.2}),  # no gates there yet
        ({}, {}),
    ],
)
def test_what_does_not_change_the_function_is_free(there, asked):
    decision = agree({**DEFAULTS, **there}, {**DEFAULTS, **asked}, set(asked))
    assert decision.take == decision.refuse == {}


def test_tables_of_learned_positions_and_stretches_of_trained_gates_are_compared():
    learned = {"encoder_learned_pos": True, "max_source_positions": 64}
    assert agree(learned, {"encoder_learned_pos": True}).take == {"max_source_positions": 64}
    assert agree(learned, {**learned, "max_source_positions": 80}).refuse == {
        "max_source_positions": (64, 80)
    }
    assert agree({"gate_stretch_low": -0.3}, {}).take == {"gate_stretch_low": -0.3}
    assert agree({"gate_stretch_low": -0.1}, {"gate_stretch_low": -0.3}).refuse


def test_words_of_a_command_line():
    words = [
        "data",
        "--encoder-layers",
        "3",
        "--activation-fn=gelu",
        "model.output_bias=true",
        "+model.freeze=all",
    ]
    assert typed_options(words) == {"encoder_layers", "activation_fn", "output_bias", "freeze"}
    assert spell("no_unk", False) == "no --no-unk" and spell("no_unk", True) == "--no-unk"
    assert same("True", 1) and same((1, 2), [1, 2]) and not same("relu", "gelu")
