"""scripts/demo.sh, the README's first command, at a scale of seconds; and again, to continue.
scripts/make_demo_corpus.py, and what it says to a folder that it cannot write to."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


def demo(out):
    env = {
        **os.environ,
        "HEADPRUNE_PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
        "DEMO_SENTENCES": "300",
        "DEMO_TEST": "20",
        "DEMO_UPDATES": "10",
        "DEMO_PRUNE_UPDATES": "60",
    }
    command = ["bash", str(ROOT / "scripts" / "demo.sh"), str(out)]
    run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=out.parent)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_demo_ends_with_its_table_and_continues(tmp_path):
    first = demo(tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())["rows"]
    assert [r["name"] for r in rows] == ["before", "same program, nothing removed", "gated", "removed"]
    assert all(r["sentences"] == 20 for r in rows)
    before, same, gated, removed = rows
    assert gated["layout"] == removed["layout"] and same["layout"] == before["layout"]
    assert gated["bleu"] == pytest.approx(removed["bleu"], abs=0.5)  # ties are decided by rounding
    # a model that has learned nothing may keep every head; what gates do is tested elsewhere
    assert sum(before["heads"].values()) == 28 >= sum(removed["heads"].values()) > 0
    assert removed["parameters"] <= before["parameters"] and removed["bytes"] < before["bytes"]
    assert "heads of removed:" in first and first.count("done before") == 0
    assert demo(tmp_path / "out").count("done before") == 6


def make_corpus(*options, cwd):
    command = [sys.executable, str(ROOT / "scripts" / "make_demo_corpus.py"), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


SMALL = ("--train", 50, "--valid", 5, "--test", 5, "--merges", 50)


def test_a_corpus_is_made_once_and_again_only_by_force(tmp_path):
    made = make_corpus("--out", "new/corpus", *SMALL, cwd=tmp_path)
    assert made.returncode == 0 and "50 train, 5 valid, 5 test sentence pairs" in made.stdout
    before = {path.name: path.read_bytes() for path in (tmp_path / "new" / "corpus").iterdir()}
    again = make_corpus("--out", "new/corpus", *SMALL, "--seed", 2, cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr
    assert {p.name: p.read_bytes() for p in (tmp_path / "new" / "corpus").iterdir()} == before
    assert make_corpus("--out", "new/corpus", *SMALL, "--force", cwd=tmp_path).returncode == 0
    assert {p.name: p.read_bytes() for p in (tmp_path / "new" / "corpus").iterdir()} == before


@pytest.mark.parametrize(
    "options, words",
    [
        (("--out", ""), "--out is empty"),
        (("--out", "file"), "--out file is a file"),
        (("--out", "file/below"), "--out file/below cannot be written to"),
        (("--out", "new", "--test", 0), "--test 0 is not a number of sentences"),
        (("--out", "new", "--merges", 0), "--merges must be at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path, options, words):
    (tmp_path / "file").write_text("mine")
    run = make_corpus(*SMALL, *options, cwd=tmp_path)
    errors = run.stderr.splitlines()
    assert run.returncode == 2 and len(errors) == 1 and words in errors[0]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
