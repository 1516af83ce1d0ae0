"""scripts/demo.sh, the README's first command, at a scale of seconds; and again, to continue."""

import json
import os
import subprocess
import sys

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
    assert [r["name"] for r in rows] == ["before", "gated", "removed"]
    assert all(r["sentences"] == 20 for r in rows)
    assert rows[1]["layout"] == rows[2]["layout"] and rows[1]["bleu"] == rows[2]["bleu"]
    before, removed = rows[0], rows[2]
    # a model that has learned nothing may keep every head; what gates do is tested elsewhere
    assert sum(before["heads"].values()) == 36 >= sum(removed["heads"].values()) > 0
    assert removed["parameters"] <= before["parameters"] and removed["bytes"] < before["bytes"]
    assert "heads of removed:" in first and first.count("done before") == 0
    assert demo(tmp_path / "out").count("done before") == 6
