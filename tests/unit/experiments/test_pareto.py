"""Which points are worth having, and what they are compared with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_headprune.experiments import pareto


@pytest.mark.parametrize(
    "points, expected",
    [
        ([(48, 38.0), (10, 37.9), (12, 37.0)], [0, 1]),
        ([(10, 30.0), (10, 31.0)], [1]),
        ([(10, 30.0), (10, 30.0)], [0, 1]),
        ([(1, 40.0), (48, 39.0)], [0]),
        ([], []),
    ],
)
def test_front(points, expected):
    assert pareto.front(points) == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9).map(float)), max_size=12))
def test_every_point_off_the_front_is_beaten_by_one_on_it(points):
    best = pareto.front(points)
    for i, (heads, bleu) in enumerate(points):
        beaten = any(points[j][0] <= heads and points[j][1] >= bleu and points[j] != points[i] for j in best)
        assert beaten == (i not in best)


def record(name, method, setting="enc", seed=1, updates=400, lr=0.1):
    return {
        "name": name,
        "method": method,
        "setting": setting,
        "seed": seed,
        "updates_in_all": updates,
        "budget": {"lr": lr},
    }


def test_the_control_is_of_the_same_setting_and_seed():
    results = {
        r["name"]: r
        for r in (
            record("enc-control", "control"),
            record("enc-control-seed2", "control", seed=2),
            record("all-control", "control", "all"),
            record("p", "l0", seed=2),
            record("q", "l0", seed=3),
            record("r", "l0", "all", 2),
            record("baseline", "baseline", "all"),
            record("s", "scratch"),
        )
    }
    found = {n: pareto.control_of(r, results) for n, r in results.items()}
    assert found["p"] == "enc-control-seed2" and found["q"] == "enc-control" and found["r"] == "all-control"
    assert not any(found[n] for n in ("baseline", "enc-control", "s"))
    assert pareto.control_of(record("t", "l0"), {}) is None


def test_a_model_from_scratch_is_compared_with_the_pruned_models_of_its_heads():
    heads, other = {"enc_self": [[0]]}, {"enc_self": [[1]]}
    results = {
        r["name"]: r
        for r in (
            {**record("short", "keep"), "layout": heads},
            {**record("long", "l0"), "layout": heads},
            {**record("another", "keep"), "layout": other},
            {**record("one-shot", "criterion", updates=0), "layout": heads},
            {**record("new", "scratch"), "layout": heads},
            {**record("new-seed2", "scratch"), "layout": heads},
        )
    }
    assert pareto.same_heads(results["new"], results) == ["short", "long"]
    assert pareto.same_heads(results["short"], results) == []


@pytest.mark.parametrize("change", [{"updates": 300}, {"lr": 0.2}, {"setting": "all"}, {"updates": 0}])
def test_another_recipe_is_no_control(change):
    assert pareto.control_of(record("p", "l0", **change), {"c": record("c", "control")}) is None


def translated(words):
    return {"hypotheses": [words] * 3, "references": ["a b c d e"] * 3}


def test_models_are_compared_on_the_sets_that_both_translated():
    own, theirs = {"one": translated("a b c d x")}, {"two": translated("x"), "one": translated("a b c d e")}
    found = pareto.paired_on_common_tests(own, theirs)
    assert found["tests"] == ["one"] and found["difference"] < 0
    assert pareto.paired_on_common_tests({"three": translated("x")}, theirs) is None


def scored(name, method, heads, tests, setting="enc"):
    scores = {t: {"bleu": b} for t, b in tests.items()}
    return {
        **record(name, method, setting),
        "heads": {"enc_self": heads, "dec_self": 1, "dec_enc": 1},
        "heads_in_all": heads + 2,
        "layout": {"enc_self": [[0] * heads], "dec_self": [[0]], "dec_enc": [[0]]},
        "scores": scores,
        "compared": {},
        "valid": None,
        "parameters": 10,
    }


def test_the_table_marks_the_front_among_points_of_all_test_sets():
    results = [
        scored("baseline", "baseline", 8, {"one": 30.0, "together": 30.0}, "all"),
        scored("good", "l0", 4, {"one": 29.5, "together": 29.5}),
        scored("bad", "l0", 5, {"one": 29.0, "together": 29.0}),
        scored("elsewhere", "criterion", 1, {"together": 99.0}),
    ]
    marked = {row["result"]["name"]: row["front"] for row in pareto.rows(results)}
    assert marked == {"baseline": True, "good": True, "bad": False, "elsewhere": False}
    lines = pareto.table(results).splitlines()
    assert lines[1].startswith("*  baseline") and "4/1/1" in next(x for x in lines if "good" in x)
