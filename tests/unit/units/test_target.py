"""Targets on the command line, and the controller that reaches them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units import gates, target
from tests.helpers.our_models import gated


@pytest.mark.parametrize(
    "text, parsed",
    [("20", {"total": 20}), ("enc-self=10, dec-self=2", {"enc_self": 10, "dec_self": 2})],
)
def test_parse(text, parsed):
    assert target.parse_target(text) == parsed


@pytest.mark.parametrize(
    "text", ["", "ten", "-3", "²", "enc-self=²", "enc-self", "enc=3", "enc-self=1,enc-self=2"]
)
def test_unreadable_targets_are_refused(text):
    with pytest.raises(UserError, match="--keep"):
        target.parse_target(text, "--keep")


def test_a_target_above_the_number_of_gated_heads_is_refused():
    target.check_target({"total": 12}, {"enc_self": 12}, "--l0-target-heads")
    with pytest.raises(UserError, match="--l0-target-heads asks for 13 heads in all"):
        target.check_target({"total": 13}, {"enc_self": 12}, "--l0-target-heads")
    with pytest.raises(UserError, match="of type dec-self"):
        target.check_target({"dec_self": 1}, {"enc_self": 12}, "--l0-target-heads")


def test_no_head_at_all_is_refused():
    with pytest.raises(UserError, match="--keep asks for no head at all: say how many"):
        target.check_translates({"total": 0}, "--keep")
    target.check_translates({"enc_self": 0, "dec_enc": 1}, "--targets")
    with pytest.raises(UserError, match="--targets leaves no dec-enc head"):
        target.check_translates({"dec_enc": 0}, "--targets")


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20, unique=True), st.data())
def test_the_threshold_leaves_exactly_the_wanted_gates(values, data):
    wanted = data.draw(st.integers(0, len(values)))
    log_a = torch.tensor(values, dtype=torch.float64)
    level = target.threshold(log_a, wanted)
    assert int((log_a > level).sum()) == wanted
    if int((log_a > 0).sum()) == wanted:
        assert level == 0.0


def test_gates_at_the_limits_count_as_whole_heads():
    log_a = torch.tensor([gates.LIMIT] * 3 + [-gates.LIMIT] * 100)
    assert abs(target.expected_heads(log_a, gates.TEMPERATURE, gates.STRETCH) - 3.0) < 1e-4


def test_the_multiplier_rises_with_excess_falls_below_target_and_is_bounded():
    assert target.step(0.0, 10.0, 48) > 0 > target.step(0.0, -10.0, 48)
    assert target.step(target.LIMIT, 1e9, 48) == target.LIMIT


def test_the_multipliers_move_once_an_update_and_only_in_training():
    module = target.LearnedTarget()
    gate = gates.HeadGates(4)
    log_a = gate.log_a
    given = ({"enc_self": 1}, {"enc_self": [gate]}, {"enc_self": log_a})
    first = float(module.penalty(*given, update=1, ramp=0.5))
    moved = float(module.multiplier[0])
    assert moved > 0 and module.multiplier[1:].tolist() == [0, 0]
    assert float(module.penalty(*given, update=1, ramp=0.5)) == first
    assert float(module.multiplier[0]) == moved
    module.penalty(*given, update=2, ramp=0.5)
    again = float(module.multiplier[0])
    assert again > moved
    module.eval()
    module.penalty(*given, update=3, ramp=0.5)
    assert float(module.multiplier[0]) == again


def test_the_threshold_leaves_the_wanted_heads_once_the_ramp_is_over():
    module, gate = target.LearnedTarget(), gates.HeadGates(3)
    with torch.no_grad():
        gate.scaled_log_a.copy_(torch.tensor([1.0, 2.0, 3.0]))
    given = ({"total": 2}, {"dec_enc": [gate]}, {"dec_enc": gate.log_a})
    module.penalty(*given, update=1, ramp=0.9)
    assert gate.is_open() == [True, True, True]
    module.penalty(*given, update=2, ramp=1.0)
    assert gate.is_open() == [False, True, True]


def test_a_checkpoint_with_the_old_name_of_the_multipliers_loads():
    model = gated(gate_types="all")
    state = model.state_dict()
    del state["learned_target.multiplier"]
    state["l0_multiplier"] = torch.tensor([0.5, 0.0, 0.25])
    model.load_state_dict(state)
    assert model.learned_target.multiplier.tolist() == [0.5, 0.0, 0.25]
