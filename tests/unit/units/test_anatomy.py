"""Where heads live, held against a stock model and against rows picked by hand."""

import subprocess
import sys

import pytest

from fairseq_headprune.units.anatomy import (
    PLACES,
    PROJECTIONS,
    belongs_to_gates,
    head_parameters,
    head_rows,
)
from tests.helpers.small_models import small_transformer


@pytest.mark.parametrize(
    "stored, wanted, rows",
    [
        ((0, 1, 2), (0, 2), [0, 1, 4, 5]),
        ((3, 5), (5,), [2, 3]),
        ((3, 5), (5, 3), [2, 3, 0, 1]),
        ((0,), (), []),
    ],
)
def test_rows_of_heads(stored, wanted, rows):
    assert head_rows(stored, wanted, 2) == rows


def test_a_head_that_is_not_stored_has_no_rows():
    with pytest.raises(ValueError):
        head_rows((0, 2), (1,), 4)


def test_names_are_those_of_fairseq():
    stock_model = small_transformer()
    names = dict(stock_model.named_parameters())
    for key, place in PLACES.items():
        for number, layer in enumerate(place.layers(stock_model)):
            module = place.of(layer)
            assert set(PROJECTIONS) == {name for name, _ in module.named_children() if name.endswith("_proj")}
            for name, dim in head_parameters(key, number):
                part, kind = name[len(place.prefix(number)) + 1 :].split(".")
                assert names[name] is getattr(getattr(module, part), kind)
                assert names[name].size(dim) == module.num_heads * module.head_dim


@pytest.mark.parametrize(
    "name, expected",
    [
        ("encoder.layers.0.self_attn.gates.scaled_log_a", True),
        ("learned_target.multiplier", True),
        ("l0_multiplier", True),
        ("encoder.layers.0.self_attn.q_proj.weight", False),
    ],
)
def test_what_only_a_gated_model_has(name, expected):
    assert belongs_to_gates(name) is expected


def test_it_needs_neither_torch_nor_fairseq():
    code = (
        "import sys, fairseq_headprune.units.anatomy; sys.exit(bool({'torch', 'fairseq'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
