"""``python -m analysis roles`` from dump to files: whole runs, interrupted runs and bad input."""

import contextlib
import csv
import functools
import json
import socket

import numpy as np
import pytest

from fairseq_headprune.analysis import stanza_parses
from fairseq_headprune.analysis.roles import command as roles_command
from fairseq_headprune.analysis.roles import stream
from fairseq_headprune.base.progress import Checkpoint
from fairseq_headprune.commands import COMMANDS, main
from tests.helpers.dumps import conllu_text, pointing, random_attention, write_dump
from tests.helpers.full_disk import files_end_at

TREE = [
    ("A", 2, "det"),
    ("dog", 3, "nsubj"),
    ("chases", 0, "root"),
    ("cats", 3, "obj"),
    (".", 3, "punct"),
]
SOURCE = ["A", "dog", "chas@@", "es", "cats", "."]
FREQUENCIES = "A 90\n. 80\ndog 9\nchas@@ 3\nes 5\ncats 2\n"


def sentence(rng):
    maps = np.stack([pointing([0, 0, 1, 2, 3, 4], 6), *random_attention(rng, 3, 7, 7)])
    return {
        "source": SOURCE,
        "target": ["x"],
        "attention": {
            "enc_self": maps.reshape(2, 2, 7, 7),
            "dec_enc": random_attention(rng, 2, 2, 2, 7),
        },
        "relevance": {"enc_self": rng.random((2, 2, 2))},
    }


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A dump in several shards, its trees and frequencies."""
    root = tmp_path_factory.mktemp("case")
    rng = np.random.default_rng(2)
    write_dump(
        root / "dump", [sentence(rng) for _ in range(60)],
        types=("enc_self", "dec_enc"), relevance=("enc_self",), shard_bytes=5000,
    )  # fmt: skip
    (root / "trees.conllu").write_text(conllu_text([TREE] * 60))
    (root / "dict.txt").write_text(FREQUENCIES)
    return root


def run(case, out, *more):
    return main(
        ["roles", str(case / "dump"), "--conllu", str(case / "trees.conllu"), "--frequencies",
         str(case / "dict.txt"), "--out", str(out), "--rare-top", "2", "--bootstrap", "100", *more]
    )  # fmt: skip


def interrupted(case, out, *more):
    with pytest.raises(SystemExit) as stop:
        run(case, out, *more)
    return stop.value.code == 130


def content(out):
    """heads.json without what differs from run to run."""
    loaded = json.loads((out / "heads.json").read_text())
    for key in ("created", "seconds", "arguments"):
        loaded["provenance"].pop(key)
    return loaded


def test_a_whole_run(case, tmp_path, capsys):
    assert run(case, tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "8 heads, 60 sentences" in printed and "heads.json" in printed
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "heads.csv", "heads.json", "relations.csv", "syntactic.csv", "unaligned.tsv"
    ]  # fmt: skip
    loaded = content(tmp_path / "out")
    heads = loaded["heads"]
    assert [(h["type"], h["layer"], h["head"]) for h in heads] == [
        (t, layer, head) for t in ("enc_self", "dec_enc") for layer in (0, 1) for head in (0, 1)
    ]
    # The planted head: every token looks one back, the first at itself. So "cats" finds "chases",
    # whose second piece looks at its first.
    first = heads[0]
    assert first["positional"]["offset"] == -1 and first["positional"]["share"] == pytest.approx(
        5 / 6, abs=1e-6
    )
    assert first["syntactic"]["obj"]["d->h"]["accuracy"] == 1
    assert first["syntactic"]["nsubj"]["h->d"]["accuracy"] == 0
    assert first["relevance"] == pytest.approx(1 - heads[1]["relevance"], abs=1e-5)
    assert heads[4]["relevance"] is heads[4]["syntactic"] is heads[4]["rare"] is None
    about = loaded["provenance"]
    assert about["model"] == {"file": "model.pt", "sha256": "a" * 64}
    assert about["counts"]["sentences"] == 60 and about["counts"]["words"] == 300
    assert len(about["parses"]["sha256"]) == len(about["frequencies"]["sha256"]) == 64
    assert about["options"]["relations"] == ["nsubj", "obj", "amod", "advmod"]
    rows = list(csv.DictReader((tmp_path / "out" / "heads.csv").open()))
    assert len(rows) == 8 and float(rows[0]["confidence"]) == first["confidence"]


def test_too_few_types_for_rare_words_are_said(case, tmp_path, capsys):
    assert run(case, tmp_path / "out", "--rare-top", "10000") == 0
    assert "no sentence has a token beyond the 10000 most frequent" in capsys.readouterr().out


def test_without_trees_and_frequencies_the_other_measures_are_taken(case, tmp_path):
    assert main(["roles", str(case / "dump"), "--out", str(tmp_path), "--types", "dec-enc", "--quiet"]) == 0
    loaded = content(tmp_path)
    assert loaded["relations"] is None and {h["type"] for h in loaded["heads"]} == {"dec_enc"}


def test_a_killed_run_goes_on_and_ends_the_same(case, tmp_path, monkeypatch, capsys):
    assert run(case, tmp_path / "whole") == 0
    seen = []

    class Often(Checkpoint):
        def __init__(self, *args):
            super().__init__(*args, seconds=0)

    real = stream.Analysis.add_shard

    def add_shard(self, records, position):
        seen.append(position)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return real(self, records, position)

    monkeypatch.setattr(roles_command, "Checkpoint", Often)
    monkeypatch.setattr(stream.Analysis, "add_shard", add_shard)
    out = tmp_path / "out"
    assert interrupted(case, out)
    assert capsys.readouterr().err.endswith("interrupted: the same command goes on from where it was\n")
    assert not (out / "heads.json").exists() and (out / "roles.partial.npz").exists()
    assert run(case, out) == 0
    assert seen[4] == seen[3] > seen[2] > 0  # it went on where it was
    assert content(out) == content(tmp_path / "whole")
    assert not (out / "roles.partial.npz").exists()

    # A state of other options is not continued.
    seen.clear()
    assert interrupted(case, out)
    seen.clear()
    assert interrupted(case, out, "--rare-top", "3", "--quiet")
    assert seen[0] == 0


def test_a_full_disk_loses_nothing_and_two_runs_are_not_mixed(case, tmp_path, monkeypatch, capsys):
    """The same of a disk that is full on the way; and meanwhile nobody else writes there."""
    out, save = tmp_path / "out", Checkpoint.save

    def full_at_the_third(self, tallies, state, now=False):
        with pytest.raises(SystemExit):
            run(case, out)  # the same command in another window
        assert "another run is writing to" in capsys.readouterr().err
        with files_end_at(100) if state["shard"] == 3 else contextlib.nullcontext():
            return save(self, tallies, state, now=True)

    monkeypatch.setattr(Checkpoint, "save", full_at_the_third)
    with pytest.raises(SystemExit) as stop:
        run(case, out, "--quiet")
    said = capsys.readouterr().err
    assert stop.value.code == 2 and said.count("\n") == 1
    assert said.endswith("roles.partial.npz: File too large; the same command goes on from where it was\n")
    assert sorted(p.name for p in out.iterdir()) == ["roles.partial.npz", "unaligned.partial.jsonl"]
    monkeypatch.undo()
    began = []
    real = stream.run
    monkeypatch.setattr(stream, "run", lambda *a: (began.append(a[2]), real(*a)))
    assert run(case, out) == 0 and began == [2]
    assert run(case, tmp_path / "whole") == 0
    assert content(out) == content(tmp_path / "whole") and not (out / ".lock").exists()


def test_output_that_cannot_be_written(case, tmp_path, capsys):
    out = tmp_path / "out"
    (out / "heads.csv").mkdir(parents=True)
    with pytest.raises(SystemExit) as stop:
        run(case, out)
    assert stop.value.code == 2 and "cannot write" in capsys.readouterr().err
    assert not any(path.is_file() and path.suffix == ".json" for path in out.iterdir())


def test_a_truncated_state_is_not_used(case, tmp_path):
    assert run(case, tmp_path / "whole") == 0
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "roles.partial.npz").write_bytes(b"PK\x03\x04 cut")
    assert run(case, tmp_path / "out") == 0
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def fails(capsys, out, *args):
    """Run a command that must refuse; its sentence."""
    with pytest.raises(SystemExit) as stop:
        main(["roles", *map(str, args), "--out", str(out), "--quiet"])
    assert stop.value.code == 2
    message = capsys.readouterr().err.strip()
    assert message.startswith("error: ") and "\n" not in message
    assert not out.exists() or not list(out.iterdir())
    return message


def test_parses_that_do_not_fit(case, tmp_path, capsys):
    out, trees = tmp_path / "out", tmp_path / "t.conllu"
    trees.write_text(conllu_text([TREE] * 59))
    assert "59 sentences and the dump's text 60" in fails(capsys, out, case / "dump", "--conllu", trees)
    trees.write_text(conllu_text([TREE] * 61))
    assert "61 sentences and the dump's text 60" in fails(capsys, out, case / "dump", "--conllu", trees)
    shifted = [[("Cats", 2, "nsubj"), ("sleep", 0, "root")]] * 30 + [TREE] * 30
    trees.write_text(conllu_text(shifted))
    message = fails(capsys, out, case / "dump", "--conllu", trees)
    assert "30 of 60 sentences have another text than their parse" in message and "its order" in message
    trees.write_text(conllu_text([TREE] * 60).replace("chases\t_\tX\t_\t_\t0", "chases\t_\tX\t_\t_\tx", 1))
    assert "t.conllu, line 4: 'x' is not" in fails(capsys, out, case / "dump", "--conllu", trees)
    assert "cannot read the parses" in fails(capsys, out, case / "dump", "--conllu", tmp_path / "none")


def test_a_few_unaligned_sentences_are_listed(case, tmp_path, capsys):
    trees = tmp_path / "t.conllu"
    trees.write_text(conllu_text([TREE] * 57 + [[("Cats", 0, "root")]] * 3))
    assert main(["roles", str(case / "dump"), "--conllu", str(trees), "--out", str(tmp_path / "out")]) == 0
    assert "3 of them not aligned" in capsys.readouterr().out
    lines = (tmp_path / "out" / "unaligned.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["57", "58", "59"]
    about = content(tmp_path / "out")["provenance"]
    assert about["counts"]["unaligned_sentences"] == 3 and about["unaligned"][0]["id"] == 57


def test_a_dictionary_that_does_not_fit(case, tmp_path, capsys):
    (tmp_path / "dict.txt").write_text("ein 9\nhund 3\n. 80\n")
    message = fails(capsys, tmp_path / "out", case / "dump", "--frequencies", tmp_path / "dict.txt")
    assert "lacks 300 of the first 360 source tokens" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "args, message",
    [
        (["--types", "dec-self"], "has no dec-self attention"),
        (["--types", "cross"], "unknown attention type 'cross'"),
        (["--types", "dec-enc", "--conllu", "x"], "--conllu is about encoder self-attention"),
        (["--relations", ","], "--relations names no relation"),
        (["--relations", "nsubj:pass"], "add --keep-subtypes"),
        (["--margin", "10"], "--margin 10.0 must be between 0 and 1"),
        (["--level", "1"], "--level 1.0 must be between"),
        (["--seed", "-1"], "--seed must be at least 0"),
        (["--bootstrap", "0"], "--bootstrap must be 1 or more"),
        (["--stanza", "/none"], "--stanza /none is not a directory"),
    ],
)
def test_options_that_make_no_sense(case, tmp_path, capsys, args, message):
    assert message in fails(capsys, tmp_path / "out", case / "dump", *args)
    assert not (tmp_path / "out").exists()


def test_dumps_that_are_none(case, tmp_path, capsys):
    assert "is not a dump" in fails(capsys, tmp_path / "out", case)
    (tmp_path / "file").write_text("")
    assert "is a file, so name another folder" in fails(capsys, tmp_path / "file" / "out", case / "dump")


def test_the_dispatcher(capsys):
    assert main([]) == main(["nonsense"]) == 2
    assert main(["--help"]) == 0
    printed = capsys.readouterr()
    assert all(name in printed.out for name in COMMANDS) and "unknown command 'nonsense'" in printed.err
    with pytest.raises(SystemExit) as stop:
        main(["roles", "--help"])
    assert stop.value.code == 0 and "--frequencies" in capsys.readouterr().out


def test_stanza_parses_offline_and_keeps_its_trees(case, shared, tmp_path, monkeypatch):
    pytest.importorskip("stanza")

    def no_network(*args, **kwargs):
        raise AssertionError("network use attempted")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(stanza_parses, "load_pipeline", functools.lru_cache(stanza_parses.load_pipeline))
    out = tmp_path / "out"
    args = [
        "roles",
        str(case / "dump"),
        "--stanza",
        str(shared / "stanza"),
        "--out",
        str(out),
        "--quiet",
    ]
    assert main(args) == 0
    trees = (out / "trees.conllu").read_text().splitlines()
    assert trees[0].startswith("# parser = stanza") and "ewt-small" in trees[0]
    assert [line.split("\t")[1] for line in trees[2:7]] == ["A", "dog", "chases", "cats", "."]
    loaded = content(out)
    assert loaded["provenance"]["parses"]["kind"] == "stanza"
    assert loaded["provenance"]["counts"]["parsed_sentences"] == 60
    assert loaded["relations"]["nsubj"]["h->d"]["n"] == 60

    # A cut file is continued, a whole one used; the result is the same file.
    whole = (out / "trees.conllu").read_text()
    (out / "trees.conllu.partial").write_text(whole[: len(whole) // 2])
    (out / "trees.conllu").unlink()
    assert main(args) == 0 and (out / "trees.conllu").read_text() == whole
    before = (out / "trees.conllu").stat().st_mtime_ns
    assert main(args) == 0 and (out / "trees.conllu").stat().st_mtime_ns == before
    assert content(out) == loaded
