"""Tables of a results page."""

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.experiments import pages, pareto, results
from fairseq_headprune.experiments.points import Point
from fairseq_headprune.units.layout import HeadLayout

LAYOUT = HeadLayout.full(1, 2, 1, 2)


def point(name, method, bleu, compared=None, gates=None, setting="enc"):
    made = Point(name, setting, method, 3, 1, l0_lambda=0.01 if method == "l0" else 0.0)
    scores = {
        t: {"bleu": bleu, "signature": "nrefs:1", "chrf_signature": "nrefs:1|nc:6"}
        for t in ("one", "together")
    }
    return {
        **made.to_dict(),
        "updates_in_all": 4,
        "heads": LAYOUT.counts(),
        "heads_in_all": 6,
        "layout": LAYOUT.to_dict(),
        "gates": gates,
        "valid": {"loss": 4.0, "nll_loss": 3.0},
        "scores": scores,
        "by_source_length": [
            {"over": 0, "up_to": 10, "sentences": 7, "bleu": bleu},
            {"over": 10, "up_to": None, "sentences": 2, "bleu": 1.0},
        ],
        "parameters": 1234,
        "bytes": 5678,
        "seconds": {"a": 120.0},
        "machine": {"cpus": 2},
        "versions": {"python": "3"},
        "compared": compared or {},
        "elsewhere": {"news": {"sentences": 9, "chrf": 33.333, "bleu": 5.0}},
        "functions": [
            {"type": "enc_self", "functions": ["rare words"]},
            {"type": "enc_self", "functions": []},
            {"type": "dec_enc", "functions": ["positional -1"]},
        ],
    }


@pytest.fixture
def made():
    interval = {"difference": -0.5, "low": -1.0, "high": 0.25}
    return {
        p["name"]: p
        for p in (
            point("baseline", "baseline", 30.0, setting="all"),
            point("enc-control", "control", 31.0),
            point(
                "enc-l0.01",
                "l0",
                30.5,
                {"enc-control": interval},
                {"enc-self": {"acting": 2, "open": 1, "closed": 3, "undecided": 4}},
            ),
        )
    }


def test_models_from_scratch_stand_beside_the_pruned_ones_of_their_heads():
    interval = {"difference": -0.75, "low": -1.0, "high": -0.5}
    pruned = point("all-l0.02", "l0", 31.0, setting="all")
    new = point(
        "scratch-all-l0.02", "scratch", 30.25, {"all-l0.02": interval, "baseline": interval}, setting="all"
    )
    made = {p["name"]: p for p in (pruned, new)}
    lines = pages.make_table("scratch", made).splitlines()
    assert lines[2] == "| all-l0.02 | 2/2/2 | 4 | 4.000 | 31.00 | 4 | 4.000 | 30.25 | -0.75 [-1.00, -0.50] |"
    assert lines[-1] == "| paper, WMT EN-RU, Table 2 | 5/9/12 |  |  | 28.90 |  |  | 28.41 | -0.49 |"
    shown = next(line for line in pages.make_table("main", made).splitlines() if "scratch-all" in line)
    assert "| 30.25 |  | -0.75 [-1.00, -0.50] |" in shown  # no control, but the baseline


@pytest.mark.parametrize(
    "ours, expected",
    [
        ({"few": (60, 29.0), "fewer": (40, 29.5), "many": (90, 31.0)}, "fewer"),
        ({"many": (90, 31.0), "more": (100, 32.0)}, "many"),
        ({}, ""),
    ],
)
def test_the_paper_stands_beside_our_best_with_no_more_heads(ours, expected):
    made = {
        n: {**point(n, "l0", bleu, setting="all"), "heads_in_all": heads} for n, (heads, bleu) in ours.items()
    }
    line = next(row for row in pages.make_table("paper", made).splitlines() if "14/31/30" in row)
    assert line.split(" | ")[3].strip() == expected


@pytest.mark.parametrize(
    "name, cells",
    [
        (
            "main",
            "| enc-l0.01 | 2 | 2 | 2 | 6 | 30.50 | 30.50 | -0.50 [-1.00, +0.25] |  | 4.000 | 1,234 | 5,678 | 4 |",
        ),
        ("main", "| **enc-control** | 2 | 2 | 2 | 6 | 31.00 |"),
        (
            "paper",
            "| OpenSubtitles EN-RU, section 6.2 | 4/48/48 | -0.25 | enc-l0.01 | 2/2/2 | -0.50 [-1.00, +0.25] |  |",
        ),
        ("paper", "| WMT EN-RU, Table 2 | 5/9/12 | -0.70 |  |  |  |  |"),
        ("length", "| model | heads | 1 to 10 words (7) | over 10 words (2) |"),
        ("length", "| enc-l0.01 | 6 | 30.50 | 1.00 |"),
        ("elsewhere", "| enc-l0.01 | 6 | news | 9 | 33.33 | 5.00 |"),
        ("functions", "| model | encoder heads | none | rare words |"),
        ("functions", "| enc-l0.01 | 2 | 1 | 1 |"),
        ("layers", "| enc-l0.01 | 2 | 2 | 2 |"),
        ("encoder-heads", "| enc-l0.01 | 0:0 0:1 |"),
        ("gates", "| enc-l0.01 | 0.01 | enc-self | 2 | 1 | 3 | 4 |"),
        ("provenance", "| chrF2 | nrefs:1\\|nc:6 | all models |"),
        ("provenance", "| wall clock, all steps | 0.1 hours | all models |"),
        ("provenance", "| machine | cpus 2 | all models |"),
    ],
)
def test_a_table_shows_what_the_files_say(made, name, cells):
    assert cells in pages.make_table(name, made)


def test_an_unknown_table_is_refused():
    with pytest.raises(UserError, match="asks for a table 'nothing'"):
        pages.make_table("nothing", {})


LOG = """2020-01-01 00:00:00 | INFO | train_inner | {"loss": "9"}
2020-01-01 00:00:00 | INFO | valid | {"epoch": 1, "valid_loss": "4.5", "valid_nll_loss": "3.5"}
2020-01-01 00:00:00 | INFO | valid | {"epoch": 2, "valid_loss": "4.25", "valid_nll_loss": "3.25"}
"""


@pytest.mark.parametrize(
    "log, expected",
    [
        (LOG, {"loss": 4.25, "nll_loss": 3.25}),
        ("nothing", None),
        ('x | valid | {"epoch": 1}', None),
    ],
)
def test_the_last_validation_counts(log, expected):
    assert results.valid_loss(log) == expected


def test_a_model_without_self_attention_in_its_decoder_has_no_column_of_it():
    made = {"baseline": point("baseline", "baseline", 31.0), "enc-l0.01": point("enc-l0.01", "l0", 30.5)}
    for record in made.values():
        record["layout"]["dec_self"], record["heads"]["dec_self"] = [], 0
    head, _, first, *_ = pages.main_table(made).splitlines()
    assert head.startswith("| model | enc | dec-enc | all |") and "| 2 | 2 | 6 |" in first
    assert "| model | enc, layers 0 to 5 | dec-enc |" in pages.layer_table(made)
    assert results.one_line(made["baseline"]).startswith("heads 2/2, BLEU")
    assert "heads e/x" in pareto.table(list(made.values()))
