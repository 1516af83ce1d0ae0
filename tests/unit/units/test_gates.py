"""Gates against the authors' numbers, the definition, and what training needs of them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units import gates
from fairseq_headprune.units.gates import HeadGates


@pytest.fixture(scope="module")
def oracle(shared):
    return np.load(shared / "oracle" / "hard_concrete.npz")


def test_sample_and_its_gradient_equal_the_authors(oracle):
    log_a = torch.tensor(oracle["grid/log_a"], requires_grad=True)
    noise = torch.tensor(oracle["grid/noise"])
    gate = gates.sample(log_a.expand_as(noise), noise)
    np.testing.assert_allclose(gate.detach(), oracle["grid/train_gate"], atol=1e-12, rtol=0)
    for row in range(len(noise)):
        (grad,) = torch.autograd.grad(gates.sample(log_a, noise[row]).sum(), log_a)
        np.testing.assert_allclose(grad, oracle["grid/d_train_gate_d_log_a"][row], atol=1e-12)


def test_p_open_and_the_penalty_gradient_equal_the_authors(oracle):
    log_a = torch.tensor(oracle["grid/log_a"], requires_grad=True)
    np.testing.assert_allclose(gates.p_open(log_a).detach(), oracle["grid/p_open"], atol=1e-5, rtol=0)
    (grad,) = torch.autograd.grad(gates.p_open(log_a).sum(), log_a)
    np.testing.assert_allclose(grad, oracle["grid/d_penalty_d_log_a"], atol=2e-5)


def test_the_distribution_at_the_middle_is_the_papers_figure_6a():
    zero = torch.zeros((), dtype=torch.float64)
    assert round(gates.p_zero(zero, temperature=0.5).item(), 2) == 0.23
    assert round(gates.p_one(zero, temperature=0.5).item(), 2) == 0.23


@settings(deadline=None, max_examples=50)
@given(
    st.floats(-6, 6),
    st.floats(0.1, 2.0),
    st.floats(-2.0, -0.01),
    st.floats(1.01, 3.0),
)
def test_probabilities_are_those_of_the_samples(log_a, temperature, low, high):
    log_a = torch.tensor(log_a, dtype=torch.float64)
    options = dict(temperature=temperature, stretch=(low, high))
    u = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    g = gates.sample(log_a, u, **options)
    assert abs(float((g == 0).double().mean()) - float(gates.p_zero(log_a, **options))) < 2e-4
    assert abs(float((g == 1).double().mean()) - float(gates.p_one(log_a, **options))) < 2e-4
    assert abs(float(gates.p_open(log_a, **options) + gates.p_zero(log_a, **options)) - 1) < 1e-12
    larger = gates.p_one(log_a, **options) > gates.p_zero(log_a, **options)
    assert bool(gates.hard(log_a, **options)) == bool(larger)


def test_hard_decides_where_both_probabilities_round_to_the_same_number():
    assert gates.hard(torch.tensor([60.0, -60.0, 1e-3, -1e-3])).tolist() == [1, 0, 1, 0]


def test_decided_and_undecided():
    is_open, is_closed = gates.decided(torch.tensor([5.0, 0.0, -5.0]))
    assert is_open.tolist() == [True, False, False]
    assert is_closed.tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_module_samples_finite_gates_in_any_precision(dtype):
    module = HeadGates(64, init=2.0).to(dtype)
    module.train()
    g = module()
    assert g.dtype == torch.float32 and torch.isfinite(g).all()
    assert ((0 <= g) & (g <= 1)).all() and g.unique().numel() > 1
    g.sum().backward()
    assert torch.isfinite(module.scaled_log_a.grad).all()


def test_module_resamples_in_training_and_is_binary_in_evaluation():
    module = HeadGates(50, init=0.3)
    module.train()
    assert not torch.equal(module(), module())
    module.eval()
    assert module().tolist() == [1.0] * 50
    module.scaled_log_a.data.neg_()
    assert module().tolist() == [0.0] * 50


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad])
def test_the_learning_rate_of_log_a_is_a_multiple_of_the_models_under_any_optimizer(optimizer):
    def log_a_after_step(scale, lr):
        module = HeadGates(1, init=1.0, lr_scale=scale)
        step = optimizer(module.parameters(), lr=lr)
        (0.3 * module.log_a.sum()).backward()
        step.step()
        return module.log_a.item()

    assert math.isclose(log_a_after_step(25.0, 0.002), log_a_after_step(1.0, 0.05), rel_tol=1e-5)


def test_a_checkpoint_keeps_its_log_a_under_another_scale():
    saved = HeadGates(3, init=-1.25, lr_scale=40.0).state_dict()
    module = HeadGates(3, init=2.0, lr_scale=8.0)
    module.load_state_dict(saved)
    assert torch.allclose(module.log_a, torch.full((3,), -1.25), atol=1e-6)
    assert module.lr_scale.item() == 8.0


@pytest.mark.parametrize(
    "options, name",
    [
        ((0.0, (-0.1, 1.1), 2.0, 30.0), "--gate-temperature"),
        ((0.33, (0.0, 1.1), 2.0, 30.0), "--gate-stretch-low"),
        ((0.33, (-0.1, 1.0), 2.0, 30.0), "--gate-stretch-high"),
        ((0.33, (-0.1, 1.1), float("nan"), 30.0), "--gate-init"),
        ((0.33, (-0.1, 1.1), 2.0, 0.0), "--gate-lr-scale"),
    ],
)
def test_options_that_describe_no_gate_are_refused_by_name(options, name):
    with pytest.raises(UserError, match=name):
        gates.check_options(*options)
