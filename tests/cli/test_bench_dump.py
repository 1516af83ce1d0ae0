"""The benchmark of dumping, on a model that needs no time."""

import json
import subprocess
import sys

import pytest
import torch

from scripts import bench_dump
from tests.conftest import ROOT


def test_both_sides_translate_the_same_sentences(tiny, tmp_path, capsys):
    threads = torch.get_num_threads()
    try:
        bench_dump.main(
            [str(tiny.checkpoint), "--data", str(tiny.data), "--repeats", "1", "--batch-size", "4"]
            + ["--every", "2", "--beam", "2", "--out", str(tmp_path / "dump.json")]
        )
    finally:
        torch.set_num_threads(threads)
    result = json.loads((tmp_path / "dump.json").read_text())["results"][0]
    assert result["sentences"] == 12 and result["dump_bytes"] > 1000
    plain, dump = (result["times"][name]["cpu"]["median"] for name in ("plain", "dump"))
    assert result["times"]["dump"]["cpu_speedup"]["n"] == 1
    assert abs(result["times"]["dump"]["cpu_speedup"]["median"] - plain / dump) < 1e-9
    shown = capsys.readouterr().out
    assert "CPU time / plain" in shown and "12 sentences" in shown


def test_programs_that_read_models_know_ours():
    """In a process of its own: here everything is registered anyway."""
    say = "from fairseq.models import ARCH_MODEL_REGISTRY as a; from fairseq.tasks import TASK_REGISTRY as t;"
    say += "print('pruned_transformer' in a, 'translation_headprune' in t)"
    for name in ("dumping", "relevance"):
        command = [sys.executable, "-c", f"from benchmarks import {name}; {say}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "scripts", check=True)
        assert done.stdout == "True True\n", name


@pytest.mark.parametrize("option", ["--repeats", "--threads", "--beam", "--batch-size", "--every"])
def test_numbers_start_at_one(tiny, capsys, option):
    with pytest.raises(SystemExit) as stopped:
        bench_dump.main([str(tiny.checkpoint), "--data", str(tiny.data), option, "0"])
    assert stopped.value.code == 2 and "must be at least 1" in capsys.readouterr().err
