"""The benchmark of dumping, on a model that needs no time."""

import json

import torch

from scripts import bench_dump


def test_both_sides_translate_the_same_sentences(tiny, tmp_path, capsys):
    threads = torch.get_num_threads()
    try:
        bench_dump.main(
            [str(tiny.checkpoint), "--data", str(tiny.data), "--repeats", "1", "--batch-size", "4"]
            + ["--every", "2", "--beam", "2", "--out", str(tmp_path / "dump.json")]
        )
    finally:
        torch.set_num_threads(threads)
    result = json.loads((tmp_path / "dump.json").read_text())
    assert result["sentences"] == 12 and result["dump_bytes"] > 1000
    assert result["cost"]["cpu"]["n"] == 1
    ratio = result["dump"]["cpu"]["median"] / result["plain"]["cpu"]["median"]
    assert abs(result["cost"]["cpu"]["median"] - ratio) < 1e-9
    assert "dump / plain, cpu time: median" in capsys.readouterr().out
