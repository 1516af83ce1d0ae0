"""The benchmark programs at toy size, and what they say about bad options."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def main_of(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_decoding_its_floor_and_their_tables(tmp_path, capsys):
    out, floor = tmp_path / "decoding.json", tmp_path / "floor.json"
    status = main_of("bench_decoding")(
        "--size toy --words 50 --layouts 24/24/24 --batches 2 --repeats 1 --target-length 6".split()
        + ["--out", str(out)]
    )
    assert status == 0
    data = json.loads(out.read_text())
    assert set(data["results"][0]["times"]) == {"stock", "gated", "pruned 24/24/24"}
    assert data["conditions"]["threads"] == 1
    main_of("bench_floor")([str(out), "--out", str(floor)])
    capsys.readouterr()
    main_of("show_benchmark")([str(out), str(floor)])
    text = capsys.readouterr().out
    assert "10 of 10" in text and "times floor" in text


def test_training(tmp_path, capsys):
    out = tmp_path / "training.json"
    main_of("bench_training")(
        "--size toy --words 50 --sentences 2 --length 5 --repeats 1".split() + ["--out", str(out)]
    )
    assert set(json.loads(out.read_text())["results"][0]["times"]) == {"stock", "gated", "gates off"}
    assert "gates off" in capsys.readouterr().out


def test_relevance_of_the_authors_sentence_and_of_real_pairs(tiny, tmp_path, capsys):
    threads, out = torch.get_num_threads(), tmp_path / "relevance.json"
    try:
        main_of("bench_relevance")(
            [
                str(tiny.checkpoint),
                "--data",
                str(tiny.data),
                "--subset",
                "test",
                "--sentences",
                "3",
                "--repeats",
                "1",
                "--out",
                str(out),
            ]
        )
    finally:
        torch.set_num_threads(threads)
    first = capsys.readouterr().out
    assert "3 pairs of" in first and first.count("| alpha-beta |") == 6
    main_of("show_benchmark")([str(out)])
    assert capsys.readouterr().out == first
    one = json.loads(out.read_text())["results"][0]
    assert {row["rule"] for row in one["sentence"]} == {"alpha-beta", "z-plus", "epsilon"}


def test_analysis_of_a_synthetic_dump(tmp_path, capsys):
    out = tmp_path / "analysis.json"
    options = "--sentences 30 --tokens 6 --layers 1 --heads 2 --repeats 1".split()
    main_of("bench_analysis")([*options, "--dir", str(tmp_path), "--out", str(out)])
    assert "30 sentences of 6 tokens, 2 heads" in capsys.readouterr().out
    main_of("show_benchmark")([str(out)])
    assert "| analysis " in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["analysis.json"], "the dump is deleted"


@pytest.mark.parametrize(
    "script, options, words",
    [
        ("bench_decoding", ["--size", "huge"], "unknown size 'huge'"),
        ("bench_decoding", ["--size", "toy", "--layouts", "1/2"], "three head counts"),
        ("bench_training", ["--size", "toy", "--repeats", "0"], "--repeats"),
        ("bench_training", ["--size", "toy", "--out", "no/such/x.json"], "does not exist"),
        ("bench_floor", ["no/such/file.json"], "cannot read"),
        ("show_benchmark", ["no/such/file.json"], "cannot read"),
        ("bench_analysis", ["--dir", "no/such/folder"], "--dir: cannot make a folder in no/such/folder"),
        ("bench_analysis", ["--repeats", "0"], "--repeats 0 must be 1 or more"),
        ("bench_relevance", ["--repeats", "0"], "--repeats"),
        ("bench_relevance", ["--sentences", "0"], "--sentences must be at least 1"),
        ("bench_relevance", ["no.pt"], "with --data"),
        ("bench_relevance", ["--out", "no/such/x.json"], "does not exist"),
        ("bench_ctranslate2", ["no.pt", "--data", "no"], "no.pt does not exist"),
    ],
)
def test_bad_options_are_one_sentence(script, options, words, capsys):
    with pytest.raises(SystemExit) as leaving:
        main_of(script)(options)
    assert leaving.value.code == 2
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error
