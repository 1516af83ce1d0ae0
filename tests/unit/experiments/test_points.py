"""What a grid becomes."""

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.experiments import points
from fairseq_headprune.experiments.points import Point, check_points, make_grid, select


def grid(**options):
    return make_grid("enc", 300, 100, **options)


def test_a_lambda_grid_has_a_baseline_a_control_and_one_point_a_lambda():
    made = grid(lambdas=[0.01, 0.002])
    assert [p.name for p in made] == ["baseline", "enc-control", "enc-l0.01", "enc-l0.002"]
    assert {(p.updates, p.settle_updates) for p in made[1:]} == {(300, 100)}
    assert made[2].l0_lambda == 0.01 and made[2].method == "l0"


def test_control_and_pruned_points_have_equal_budgets():
    by_name = {p.name: p for p in grid(lambdas=[0.01], criteria=[("gradient", "4")], tuned=True)}
    assert (
        by_name["enc-control"].total_updates
        == by_name["enc-l0.01"].total_updates
        == by_name["enc-gradient-4-tuned"].total_updates
        == 400
    )


def test_the_sentences_of_a_criterion_are_said_when_they_are_not_the_default():
    asked = {p.name: p for p in grid(criteria=[("gradient", "4"), ("random", "4")], sentences=7)}
    assert asked["enc-gradient-4"].to_dict()["sentences"] == 7 and not asked["enc-random-4"].sentences
    assert "sentences" not in grid(criteria=[("gradient", "4")])[-1].to_dict()  # as in older run folders


def test_keep_takes_the_strongest_lambda_unless_told():
    kept = [p for p in grid(lambdas=[0.01, 0.05], keep=["17", "1"]) if p.method == "keep"]
    assert [(p.source, p.target) for p in kept] == [("enc-l0.05", "enc-self=17"), ("enc-l0.05", "enc-self=1")]
    assert grid(keep=["4"], keep_from="enc-l0.01")[-1].source == "enc-l0.01"
    with pytest.raises(UserError, match="--keep needs --keep-from"):
        grid(keep=["4"])


@pytest.mark.parametrize(
    "setting, text, expected",
    [
        ("enc", "10", "enc-self=10"),
        ("all", "48", "48"),
        ("all", "enc-self=3,dec-enc=9", "enc-self=3,dec-enc=9"),
    ],
)
def test_a_bare_count_is_of_encoder_heads_where_only_those_are_gated(setting, text, expected):
    assert points.in_setting(text, setting) == expected


def test_names_say_the_seed_and_fit_into_a_file_system():
    made = make_grid(
        "all",
        1,
        1,
        lambdas=[0.01],
        targets=["enc-self=3,dec-enc=9"],
        seed=2,
        criteria=[("random", "48")],
        scratch=["all-l0.01"],
        scratch_updates=7,
    )
    assert [p.name for p in made][1:] == [
        "all-control-seed2",
        "all-l0.01-seed2",
        "all-target-e3-x9-seed2",
        "all-random-48-seed2",
        "scratch-all-l0.01-seed2",
    ]
    assert made[-1].updates == 7 and made[-1].source == "all-l0.01"


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: make_grid("dec", 1, 1), "unknown setting 'dec'"),
        (lambda: grid(lambdas=[0.01, 0.01]), "two points of the sweep would be called 'enc-l0.01'"),
        (lambda: grid(lambdas=[-1.0]), "lambda must be a number of at least 0"),
        (lambda: make_grid("enc", -1, 1, lambdas=[0.1]), "must not be negative"),
        (lambda: check_points([Point("a", "enc", "magic")]), "unknown method 'magic'"),
        (lambda: make_grid("enc", 1, 1, targets=["few"]), "cannot read the number of heads 'few'"),
        (lambda: select(grid(), ["nothing"]), "--only names 'nothing'"),
    ],
)
def test_bad_grids_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_select_keeps_the_order_of_the_grid():
    made = grid(lambdas=[0.01, 0.02])
    assert [p.name for p in select(made, ["enc-l0.02", "baseline"])] == ["baseline", "enc-l0.02"]


def test_default_grids_have_at_least_seven_points():
    assert all(len(points.LAMBDAS[s]) >= 7 for s in points.SETTINGS)
