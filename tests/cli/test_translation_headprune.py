"""fairseq-generate and fairseq-interactive with --task translation_headprune, end to end."""

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints.reading import load_model
from fairseq_headprune.dump import open_dump
from fairseq_headprune.recording import run as run_record
from fairseq_headprune.recording.run import RunRecord
from fairseq_headprune.units.layout import ATTENTION_TYPES
from tests.helpers.command_lines import USER_DIR, generate, interactive, tiny_model

ROOT = str(Path(__file__).resolve().parents[2])
OURS = ("--task", "translation_headprune")
STOCK = ("--task", "translation")
ADDED = re.compile(r"R-\d+\t|Head relevance |(enc|dec)-(self|enc) |layer \d|$")


def arguments(tiny, *more, checkpoint=None, batch=8):
    path = checkpoint or tiny.checkpoint
    common = ["--path", path, "--beam", "3", "--max-len-b", "12", "--cpu", "--batch-size", batch]
    common += ["--num-workers", "0"]  # another process takes its time to end
    return [tiny.data, *common, *USER_DIR, *more]


def without_our_lines(text):
    """Standard output less what we add and the seconds that fairseq-interactive measures."""
    lines = [line for line in text.splitlines() if not ADDED.match(line)]
    return [re.sub(r"^(W-\d+)\t.*", r"\1", line) for line in lines]


def hypotheses(text):
    """Sentence number -> tokens of the H line, EOS added."""
    rows = (line.split("\t") for line in text.splitlines() if line.startswith("H-"))
    return {int(row[0][2:]): row[2].split() + ["</s>"] for row in rows}


def sources(tiny):
    return [line.split() for line in (tiny.text / "test.src").read_text().splitlines()]


# -- standard output -----------------------------------------------------------------------

RUNS = {
    "beam": [],
    "sampling": ["--sampling", "--nbest", "3", "--seed", "5"],
    "prefix": ["--prefix-size", "2"],
    "reference": ["--score-reference"],
    "nbest": ["--nbest", "2", "--print-alignment"],
}


@pytest.mark.parametrize("run", RUNS)
def test_generate_prints_what_fairseq_prints(tiny, tmp_path, run):
    args = arguments(tiny, *RUNS[run])
    stock = generate(*args, *STOCK)
    ours = generate(*args, *OURS, "--dump-attention", tmp_path / "d", "--head-relevance", "z-plus")
    assert without_our_lines(ours) == stock.splitlines() and len(hypotheses(stock)) == 24
    dump = open_dump(tmp_path / "d")
    assert sorted(dump.ids) == list(range(24)) and dump.manifest["complete"]
    if run in ("beam", "prefix", "sampling"):
        best = hypotheses("\n".join(reversed(ours.splitlines())))  # the first of several wins
        assert {record.id: record.target for record in dump} == best
    for record, words in ((dump[n], words) for n, words in enumerate(sources(tiny))):
        assert record.source == words + ["</s>"]
        if run == "reference":
            assert record.target == [f"{word}_" for word in reversed(words)] + ["</s>"]


@pytest.mark.parametrize(
    "more", [["--nbest", "2"], ["--constraints"], ["--buffer-size", "5", "--batch-size", "3"]]
)
def test_interactive_prints_what_fairseq_prints(tiny, tmp_path, more):
    lines = [" ".join(words) for words in sources(tiny)[:7]]
    if "--constraints" in more:
        lines = [line + "\ttwo_\tsix_" for line in lines]
    args = arguments(tiny, "-s", "src", "-t", "tgt", *more, batch=1)
    stock = interactive(lines, *args, *STOCK)
    ours = interactive(lines, *args, *OURS, "--dump-attention", tmp_path / "d", "--head-relevance", "z-plus")
    assert without_our_lines(ours) == without_our_lines(stock)
    if "--constraints" in more:
        assert all({"two_", "six_"} <= set(words) for words in hypotheses(ours).values())
    assert sorted(open_dump(tmp_path / "d").ids) == list(range(7))
    # after the lines of the first hypothesis of a sentence, one line per type and layer
    rows = ours.splitlines()
    for n in range(7):
        block = [row for row in rows if row.startswith(f"R-{n}\t")]
        assert [row.split("\t")[1:3] for row in block] == [
            [key, str(layer)] for key in ("enc-self", "dec-self", "dec-enc") for layer in (0, 1)
        ]
        first = next(k for k, row in enumerate(rows) if row.startswith(f"P-{n}\t"))
        assert rows[first + 1] == block[0]
        for row in block:
            shares = [float(x) for x in row.split("\t")[3].split()]
            assert len(shares) == 4 and abs(sum(shares) - 1) < 1e-3


def test_without_our_options_the_task_is_translation(tiny):
    args = arguments(tiny)
    assert generate(*args, *OURS) == generate(*args, *STOCK)


def run(program, *args):
    """The installed program in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", f"fairseq_cli.{program}", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=ROOT))


def test_the_program_ends_with_the_table(tiny):
    args = [*arguments(tiny), *OURS, "--head-relevance", "z-plus"]
    done = run("generate", *args)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("layer 1") and lines[-3].startswith("dec-enc")
    result = next(n for n, line in enumerate(lines) if line.startswith("Generate test with"))
    assert lines[result + 1].startswith("Head relevance (z-plus")
    assert "recorded 24 of 24 sentences" in done.stderr


def test_a_mistake_is_one_sentence_and_status_2(tiny):
    done = run("generate", *arguments(tiny), *OURS, "--head-relevance", "lrp")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "error: --head-relevance is 'lrp': use one of alpha-beta, z-plus, epsilon, appendix-a2"
    )


# -- what is recorded ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dumped(tiny, tmp_path_factory):
    directory = tmp_path_factory.mktemp("dumped") / "d"
    options = ["--dump-attention", directory, "--head-relevance", "alpha-beta"]
    table = ["--relevance-table", directory.parent / "table.json"]
    printed = generate(*arguments(tiny), *OURS, *options, *table)
    return directory, printed


def test_attention_is_a_distribution_over_the_keys(dumped):
    for record in open_dump(dumped[0]):
        for key in ATTENTION_TYPES:
            maps = record.attention[key].astype(np.float32)
            assert maps.shape[:2] == (2, 4)
            np.testing.assert_allclose(maps.sum(-1), 1, atol=2e-3)
        future = np.triu(np.ones((len(record.target),) * 2, dtype=bool), 1)
        assert not record.attention["dec_self"][:, :, future].any()


def forced(tiny, record):
    """What fairseq needs to decode a record's translation once more, alone."""
    model, _, task = load_model(tiny.checkpoint, tiny.data)
    words = task.source_dictionary
    source = torch.tensor([[words.index(word) for word in record.source]])
    target = torch.tensor([[words.index(word) for word in record.target]])
    prev = torch.cat([target[:, -1:], target[:, :-1]], dim=1)
    return model, source, torch.tensor([source.size(1)]), prev


def test_mean_over_heads_is_what_fairseq_averages(tiny, dumped):
    for record in list(open_dump(dumped[0]))[::5]:
        model, source, lengths, prev = forced(tiny, record)
        with torch.no_grad():
            for layer in range(2):
                encoder = model.encoder(source, lengths)
                _, extra = model.decoder(prev, encoder_out=encoder, alignment_layer=layer)
                stock = extra["attn"][0][0].numpy()
                ours = record.attention["dec_enc"][layer].astype(np.float32).mean(0)
                np.testing.assert_allclose(ours, stock, atol=1e-3)
            x = model.encoder.forward_embedding(source)[0].transpose(0, 1)
            attention = model.encoder.layers[0].self_attn
            if model.encoder.layers[0].normalize_before:
                x = model.encoder.layers[0].self_attn_layer_norm(x)
            _, stock = attention(x, x, x, need_weights=True)
            ours = record.attention["enc_self"][0].astype(np.float32).mean(0)
            np.testing.assert_allclose(ours, stock[0].numpy(), atol=1e-3)


def test_padding_and_batches_change_nothing(tiny, tmp_path, dumped):
    generate(*arguments(tiny, batch=1), *OURS, "--dump-attention", tmp_path / "one")
    one, eight = open_dump(tmp_path / "one"), open_dump(dumped[0])
    same = [n for n in range(24) if one[n].target == eight[n].target]
    assert len(same) >= 23  # two hypotheses of equal scores are a tie, which rounding decides
    for n in same:
        for key in ATTENTION_TYPES:
            np.testing.assert_allclose(one[n].attention[key], eight[n].attention[key], atol=1e-3, rtol=2e-3)


def test_dump_of_beam_search_is_that_of_forced_decoding(tiny, tmp_path, dumped):
    beam = open_dump(dumped[0])
    for n in range(24):  # the model's own translations as references
        (tmp_path / "forced.src").open("a").write(" ".join(beam[n].source[:-1]) + "\n")
        (tmp_path / "forced.tgt").open("a").write(" ".join(beam[n].target[:-1]) + "\n")
    from tests.helpers.command_lines import preprocess

    preprocess(
        *("--source-lang", "src", "--target-lang", "tgt", "--testpref", tmp_path / "forced"),
        *("--srcdict", tiny.data / "dict.src.txt", "--tgtdict", tiny.data / "dict.tgt.txt"),
        *("--destdir", tmp_path / "data-bin"),
    )
    generate(
        *(tmp_path / "data-bin", *arguments(tiny)[1:], *OURS, "--score-reference"),
        *("--dump-attention", tmp_path / "f", "--head-relevance", "alpha-beta"),
    )
    forced = open_dump(tmp_path / "f")
    for record in beam:
        again = forced[record.id]
        assert (again.source, again.target) == (record.source, record.target)
        for key in ATTENTION_TYPES:
            np.testing.assert_allclose(again.attention[key], record.attention[key], atol=1e-3, rtol=2e-3)
            np.testing.assert_allclose(again.relevance[key], record.relevance[key], rtol=1e-3, atol=1e-6)


def test_relevance_is_the_engines(tiny, dumped):
    from fairseq_headprune.lrp import head_relevance

    for record in list(open_dump(dumped[0]))[::7]:
        model, source, lengths, prev = forced(tiny, record)
        alone = head_relevance(model, source, lengths, prev, rule="alpha-beta")
        for key in ATTENTION_TYPES:
            np.testing.assert_allclose(record.relevance[key], alone[key][:, 0].numpy(), rtol=1e-3, atol=1e-6)


def test_table_is_the_mean_over_all_steps(dumped):
    directory, printed = dumped
    saved = json.loads((directory.parent / "table.json").read_text())
    records = list(open_dump(directory))
    for key in ATTENTION_TYPES:
        steps = np.concatenate([record.relevance[key] for record in records]).astype(np.float64)
        shares = (steps / steps.sum(-1, keepdims=True)).mean(0)
        np.testing.assert_allclose(saved["relevance"][key], shares, rtol=1e-5)
    assert saved["counts"]["sentences"] == 24
    assert saved["counts"]["steps"] == sum(len(record.target) for record in records)
    assert saved["provenance"]["model"]["sha256"] == open_dump(directory).manifest["model"]["sha256"]
    tail = printed[printed.index("Head relevance (alpha-beta, start top1, attention full)") :]
    assert tail.count("layer ") == 6
    row = next(line for line in tail.splitlines() if line.startswith("layer 1"))
    numbers = [float(x) for x in row.split()[2:]]
    np.testing.assert_allclose(numbers, saved["relevance"]["enc_self"][1], atol=6e-4)


def test_long_sentences_go_without_relevance(tiny, tmp_path, dumped, capsys):
    args = [*arguments(tiny), *OURS, "--head-relevance", "alpha-beta", "--relevance-max-tokens", "6"]
    printed = generate(
        *args, "--dump-attention", tmp_path / "d", "--relevance-table", tmp_path / "table.json"
    )
    told = capsys.readouterr().err
    whole, short = open_dump(dumped[0]), []
    for record in open_dump(tmp_path / "d"):
        if max(len(record.source), len(record.target)) > 6:
            assert not any(array.any() for array in record.relevance.values())
        else:
            short.append(record.id)
            for key in ATTENTION_TYPES:
                one = whole[record.id].relevance[key]
                np.testing.assert_allclose(record.relevance[key], one, rtol=1e-3, atol=1e-6)
    assert 0 < len(short) < 24 and f"without relevance: {24 - len(short)} (numbers " in told
    counts = json.loads((tmp_path / "table.json").read_text())["counts"]
    assert counts["sentences"] == len(short) and counts["sentences_without_relevance"] == 24 - len(short)
    assert f"of {len(short)} sentences:" in printed
    lines = [" ".join(words) for words in sources(tiny)[:7]]
    interactive_args = arguments(tiny, "-s", "src", "-t", "tgt", batch=1)
    printed = interactive(lines, *interactive_args, *OURS, *args[-4:])
    with_lines = {int(row.split("\t")[0][2:]) for row in printed.splitlines() if row.startswith("R-")}
    assert with_lines == {n for n in range(7) if n in short} and len(hypotheses(printed)) == 7


def test_what_relevance_costs_is_said_beforehand(tiny, monkeypatch, capsys):
    args = [*arguments(tiny), *OURS, "--head-relevance", "z-plus"]
    generate(*args)
    assert "on this machine" not in capsys.readouterr().err  # not worth a word
    monkeypatch.setattr(run_record, "WORTH_A_LOOK", 0)
    monkeypatch.setattr(run_record, "WORTH_A_WORD", 0)
    generate(*args)
    told = re.search(
        r"relevance of 24 sentences: about (.*) on this machine, and up to (.*) of memory(.*)",
        capsys.readouterr().err,
    )
    assert told and told[1].endswith((" s", " min")) and told[2].endswith("MB")
    assert told[3] == "; --relevance-max-tokens leaves long ones out"
    interactive(["one two three"], *arguments(tiny, "-s", "src", "-t", "tgt", batch=1), *OURS, *args[-2:])
    assert "relevance of a sentence of " in capsys.readouterr().err


@pytest.mark.parametrize("seconds, text", [(41.3, "41 s"), (600, "10 min"), (7200, "2.0 h")])
def test_durations(seconds, text):
    assert run_record.duration(seconds) == text


def test_emitted_start_explains_the_references_tokens(tiny, tmp_path):
    args = [*arguments(tiny, "--score-reference"), *OURS, "--head-relevance", "z-plus"]
    tables = {}
    for start in ("top1", "emitted"):
        tables[start] = tmp_path / f"{start}.json"
        generate(*args, "--relevance-start", start, "--relevance-table", tables[start])
    top1, emitted = (json.loads(t.read_text())["relevance"]["dec_enc"] for t in tables.values())
    assert np.abs(np.array(top1) - np.array(emitted)).max() > 1e-4


def test_removed_heads(tiny, tmp_path):
    layout = {"enc_self": [[0, 3], []], "dec_self": [[1], [0, 1, 2, 3]], "dec_enc": [[2], [1, 2]]}
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    checkpoint = tiny_model(
        tmp_path / "m",
        tiny.data,
        "pruned_transformer",
        "--head-layout",
        str(tmp_path / "layout.json"),
    )
    args = arguments(tiny, *OURS, "--dump-attention", tmp_path / "d", checkpoint=checkpoint)
    printed = generate(*args, "--head-relevance", "z-plus")
    dump = open_dump(tmp_path / "d")
    assert dump.layout.to_dict() == layout and dump.num_heads["enc_self"] == 4
    for record in dump:
        assert record.heads_attention("enc_self").shape[0] == 2
        assert not record.attention["enc_self"][1].any()
        assert not record.relevance["enc_self"][0][:, [1, 2]].any()
        np.testing.assert_allclose(record.heads_attention("dec_enc").sum(-1), 1, atol=2e-3)
    block = printed[printed.index("enc-self ") :].splitlines()
    assert block[1].split()[3:5] == ["-", "-"] and block[2].split()[2:] == ["-"] * 4


# -- interruption and refusals -----------------------------------------------------------------


STOPPED = """
import sys
from fairseq_cli.generate import cli_main
from fairseq_headprune.recording.run import RunRecord
add, seen = RunRecord.add, []
def stops(self, *sentence):
    seen.append(sentence)
    if len(seen) == 8:
        raise KeyboardInterrupt
    add(self, *sentence)
RunRecord.add = stops
cli_main()
"""


def test_ctrl_c_ends_with_how_to_go_on(tiny, tmp_path):
    args = [*arguments(tiny), *OURS, "--dump-attention", tmp_path / "d"]
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, *map(str, args)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130 and "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("20")]  # no log lines
    assert "interrupted: the same command goes on from what it has saved" in said
    assert said[-1] == f"the same command goes on with the sentences missing in {tmp_path / 'd'}"
    assert len(open_dump(tmp_path / "d")) == 7


def interrupted(monkeypatch, count, args):
    """fairseq-generate, stopped after recording so many sentences; the numbers of all that it came to."""
    add, seen = RunRecord.add, []

    def add_until_the_user_is_tired(self, *sentence):
        seen.append(sentence[0])
        if len(seen) > count:
            raise KeyboardInterrupt
        add(self, *sentence)

    monkeypatch.setattr(RunRecord, "add", add_until_the_user_is_tired)
    try:
        generate(*args)
        raise AssertionError("not interrupted")
    except KeyboardInterrupt:
        pass
    gc.collect()
    monkeypatch.undo()
    return seen


def test_an_interrupted_run_goes_on(tiny, tmp_path, monkeypatch, capsys):
    args = [*arguments(tiny), *OURS, "--head-relevance", "z-plus"]
    whole = ["--dump-attention", tmp_path / "whole", "--relevance-table", tmp_path / "whole.json"]
    generate(*args, *whole)

    parts = ["--dump-attention", tmp_path / "d", "--relevance-table", tmp_path / "d.json"]
    seen = interrupted(monkeypatch, 12, args + parts)
    half = open_dump(tmp_path / "d")
    assert sorted(half.ids) == sorted(seen[:12]) and not half.manifest["complete"]
    assert not (tmp_path / "d.json").exists()

    printed = generate(*args, *parts)
    assert not set(hypotheses(printed)) & set(half.ids)  # nothing is translated twice
    dump, reference = open_dump(tmp_path / "d"), open_dump(tmp_path / "whole")
    assert sorted(dump.ids) == list(range(24)) and dump.manifest["complete"]
    for record in reference:
        for key in ATTENTION_TYPES:
            np.testing.assert_allclose(
                dump[record.id].attention[key], record.attention[key], atol=1e-3, rtol=2e-3
            )
    tables = [json.loads((tmp_path / f"{n}.json").read_text()) for n in ("d", "whole")]
    assert tables[0]["counts"] == tables[1]["counts"]
    for key in ATTENTION_TYPES:
        a, b = (table["relevance"][key] for table in tables)
        np.testing.assert_allclose(a, b, atol=1e-5)

    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:  # and a third time there is nothing to do
        generate(*args, *parts)
    assert stop.value.code == 0 and "nothing is left to do" in capsys.readouterr().err


def test_a_shard_is_complete_by_itself_and_goes_on_with_its_own(tiny, tmp_path, monkeypatch, capsys):
    """Two ranks without spawning, the first interrupted after one sentence of its first batch."""
    every = {}
    for rank in (0, 1):
        dump = tmp_path / f"rank{rank}"
        shard = ["--distributed-world-size", 2, "--distributed-rank", rank, "--dump-attention", dump]
        args = arguments(tiny, *OURS, *shard, batch=5)
        stock = hypotheses(generate(*arguments(tiny, *STOCK, *shard[:4], batch=5)))
        if rank == 0:
            interrupted(monkeypatch, 1, args)
            assert len(open_dump(dump).ids) == 1 and not open_dump(dump).manifest["complete"]
        capsys.readouterr()
        generate(*args)
        assert "interrupted" not in capsys.readouterr().err
        found = open_dump(dump)
        assert found.manifest["complete"] and found.manifest["data"]["shard"] == f"{rank} of 2"
        assert set(found.ids) == set(stock) and {r.id: r.target for r in found} == stock
        with pytest.raises(SystemExit) as ended:
            generate(*args)
        assert ended.value.code == 0 and "nothing is left to do" in capsys.readouterr().err
        every[rank] = set(found.ids)
    assert every[0] | every[1] == set(range(24)) and not every[0] & every[1]
    with pytest.raises(UserError, match="data.shard"):
        generate(*arguments(tiny, *OURS, *shard[:5], tmp_path / "rank0", batch=5))


def test_interactive_goes_on_only_with_the_same_input(tiny, tmp_path):
    lines = [" ".join(words) for words in sources(tiny)[:4]]
    args = [*arguments(tiny, "-s", "src", "-t", "tgt", batch=1), *OURS]
    args += ["--dump-attention", tmp_path / "d"]
    interactive(lines[:2], *args)
    assert set(hypotheses(interactive(lines, *args))) == {2, 3}
    assert open_dump(tmp_path / "d").ids == [0, 1, 2, 3]
    with pytest.raises(UserError, match="sentence 0 in .* is not"):
        interactive(lines[::-1], *args)


def test_a_stabiliser_reaches_the_rule_and_its_table(tiny, tmp_path):
    found = []
    for value in ((), ("--relevance-stabiliser", "0.1")):
        table = tmp_path / "table.json"
        options = ["--head-relevance", "appendix-a2", "--relevance-table", table, *value]
        generate(*arguments(tiny), *OURS, *options)
        found.append(json.loads(table.read_text()))
    first, second = (data["provenance"]["options"]["relevance"] for data in found)
    assert first == {"rule": "appendix-a2", "start": "top1", "attention": "full"}
    assert second == {**first, "stabiliser": 0.1}
    assert found[0]["magnitude"] != found[1]["magnitude"]


def test_empty_and_overlong_lines_are_counted(tiny, tmp_path, capsys):
    lines = ["one two", "", "nine " * 40, "three four"]
    args = [*arguments(tiny, "-s", "src", "-t", "tgt", batch=1), "--buffer-size", "4", *OURS]
    printed = interactive(lines, *args, "--dump-attention", tmp_path / "d", "--head-relevance", "epsilon")
    gc.collect()
    assert set(hypotheses(printed)) == {0, 1, 3}
    assert sorted(open_dump(tmp_path / "d").ids) == [0, 3]
    said = capsys.readouterr().err
    assert "longer than the model takes: lines 2" in said
    assert re.search(r"empty sentences.*: 1 \(numbers 1\)", said)


@pytest.mark.parametrize("path", ["missing.txt", "."])
def test_input_that_is_no_file_is_named(tiny, tmp_path, path):
    args = arguments(tiny, "-s", "src", "-t", "tgt", "--input", path, *OURS, batch=1)
    with pytest.raises(UserError, match=f"--input {path} is not a file"):
        interactive([], *args, "--dump-attention", tmp_path / "d")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--head-relevance", "z-plus", "--retain-dropout"], "--retain-dropout"),
        (["--dump-attention", "taken"], "not empty and is not a dump"),
        (["--relevance-table", "t.json"], "--relevance-table needs --head-relevance"),
    ],
)
def test_bad_options_are_named(tiny, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").write_text("Dear reader")
    with pytest.raises(UserError, match=words):
        generate(*arguments(tiny), *OURS, *options)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    "option, value, words",
    [
        ("--path", "missing.pt", "missing.pt does not exist: name a file"),
        ("--path", "short.pt", "cannot read short.pt as a checkpoint: it is truncated"),
        ("--path", "letter.txt", "cannot read letter.txt as a checkpoint"),
        ("--path", ".", ". is a folder: name a checkpoint file"),
        ("--path", "other.pt", "other.pt is not a fairseq checkpoint: it has no 'model'"),
        ("data", "missing", "the folder missing does not exist: name the one"),
        ("data", "other-words", "trained with another source dictionary .24 entries. than"),
        ("--gen-subset", "nowhere", "has no subset 'nowhere': choose a part"),
        (
            "--relevance-table",
            "missing/t.json",
            "the folder of --relevance-table missing/t.json does not exist",
        ),
        ("--relevance-table", ".", "--relevance-table . is a folder: name a file"),
        ("--relevance-table", "/proc/t.json", "cannot write --relevance-table /proc/t.json"),
        ("--dump-attention", "letter.txt", "letter.txt is no directory"),
        ("--dump-attention", "/proc/d", "cannot write to the dump directory /proc/d .*: give one"),
    ],
)
def test_bad_files_are_named_before_any_work(tiny, tmp_path, monkeypatch, option, value, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("Dear reader")
    (tmp_path / "short.pt").write_bytes(Path(tiny.checkpoint).read_bytes()[:20_000])
    torch.save({"weights": 1}, tmp_path / "other.pt")
    (tmp_path / "other-words").mkdir()
    for path in tiny.data.iterdir():
        more = "extra 1\n" * path.name.startswith("dict.")
        (tmp_path / "other-words" / path.name).write_bytes(path.read_bytes() + more.encode())
    before = sorted(tmp_path.rglob("*"))
    args = arguments(tiny, *OURS, "--head-relevance", "z-plus")
    args = [value, *args[1:]] if option == "data" else [*args, option, value]
    with pytest.raises(UserError, match=words):
        generate(*args)
    assert sorted(tmp_path.rglob("*")) == before


def test_ensembles_are_refused(tiny, tmp_path):
    both = f"{tiny.checkpoint}:{tiny.checkpoint}"
    args = arguments(tiny, *OURS, "--dump-attention", tmp_path / "d", checkpoint=both)
    with pytest.raises(UserError, match="--path names several models"):
        generate(*args)
    assert not (tmp_path / "d").exists()


def test_a_dump_of_another_model_or_option_set_is_refused(tiny, tmp_path, dumped):
    options = [*OURS, "--dump-attention", dumped[0], "--head-relevance", "alpha-beta"]
    other = tmp_path / "other.pt"
    state = torch.load(tiny.checkpoint)
    state["model"]["encoder.layers.0.fc1.bias"] += 1
    torch.save(state, other)
    with pytest.raises(UserError, match="model.sha256"):
        generate(*arguments(tiny, checkpoint=other), *options)
    with pytest.raises(UserError, match="options.generation.lenpen is 1(.0)? there and 0.6 here"):
        generate(*arguments(tiny, "--lenpen", "0.6"), *options)
    with pytest.raises(UserError, match="options.relevance.rule"):
        generate(*arguments(tiny), *options[:-1], "z-plus")
    with pytest.raises(UserError, match="contents.attention"):
        generate(*arguments(tiny), *options, "--dump-types", "enc-self")


def test_only_the_types_asked_for_are_dumped(tiny, tmp_path):
    args = [*arguments(tiny), *OURS, "--dump-attention"]
    generate(*args, tmp_path / "enc", "--dump-types", "enc-self")
    record = open_dump(tmp_path / "enc")[0]
    assert list(record.attention) == ["enc_self"] and not record.relevance
    generate(*args, tmp_path / "rel", "--dump-types", "none", "--head-relevance", "z-plus")
    record = open_dump(tmp_path / "rel")[0]
    assert not record.attention and set(record.relevance) == set(ATTENTION_TYPES)
