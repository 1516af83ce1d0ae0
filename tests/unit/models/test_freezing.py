"""Which parameters each --freeze strategy touches."""

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.models.freezing import freeze, frozen_names, parse_freeze
from tests.helpers.our_models import gated

NAMES = [
    "encoder.embed_tokens.weight",
    "encoder.layers.0.self_attn.q_proj.weight",
    "encoder.layers.0.self_attn.gates.scaled_log_a",
    "decoder.embed_tokens.weight",
    "decoder.layers.0.encoder_attn.gates.scaled_log_a",
    "decoder.layers.0.fc1.weight",
    "decoder.output_projection.weight",
]
SEPARATE = {name: i for i, name in enumerate(NAMES)}
SHARED = {**SEPARATE, NAMES[3]: 0, NAMES[6]: 0}


@pytest.mark.parametrize(
    "strategy, identities, frozen, shared",
    [
        ("none", SEPARATE, [], []),
        ("decoder", SEPARATE, [3, 5, 6], []),
        ("encoder", SEPARATE, [0, 1], []),
        ("embeddings", SEPARATE, [0, 3], []),
        ("encoder,decoder", SEPARATE, [0, 1, 3, 5, 6], []),
        ("decoder", SHARED, [0, 3, 5, 6], [0]),
        ("encoder", SHARED, [0, 1, 3, 6], [3, 6]),
        ("embeddings", SHARED, [0, 3, 6], [6]),
    ],
)
def test_strategies(strategy, identities, frozen, shared):
    result = frozen_names(parse_freeze(strategy), identities)
    assert result == ([NAMES[i] for i in frozen], [NAMES[i] for i in shared])


@pytest.mark.parametrize("text, part", [("encoder,decode", "decode"), ("", ""), ("none,encoder", "none")])
def test_unknown_part_is_named(text, part):
    with pytest.raises(UserError, match=f"--freeze does not know '{part}'"):
        parse_freeze(text)


def test_gates_stay_trainable_whatever_is_frozen():
    model = gated(freeze="encoder,decoder,embeddings")
    trainable = {n for n, p in model.named_parameters() if p.requires_grad}
    assert trainable == {n for n, _ in model.named_parameters() if n.endswith("scaled_log_a")}
    assert len(trainable) == 6


def test_freezing_a_model_reports_names():
    model = gated(share_all_embeddings=True)
    assert freeze(model, ("decoder",))["shared"] == ["encoder.embed_tokens.weight"]
