"""compare, ablate, figures, maps and report as a user runs them."""

import csv
import json
from argparse import Namespace

import numpy as np
import pytest
import torch

from fairseq_headprune.analysis import head_table
from fairseq_headprune.analysis.ablation import sentence_loss
from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.analysis.ablation.heads_off import heads_off
from fairseq_headprune.analysis.ablation.sentence_loss import Scorer
from fairseq_headprune.base.locking import FolderLock
from fairseq_headprune.checkpoints.reading import load_model
from fairseq_headprune.commands import main
from fairseq_headprune.units.layout import Head, parse_head
from tests.helpers.analysis_tables import ablation, sweep, write_points
from tests.helpers.command_lines import USER_DIR, generate
from tests.helpers.dumps import conllu_text, random_attention, write_dump
from tests.helpers.full_disk import files_end_at
from tests.helpers.heads_json import heads_json, write_heads_json
from tests.helpers.small_models import batch, dictionary, small_transformer
from tests.reference.matched_change import matched_change
from tests.unit.analysis.ablation.test_heads_off import zeroed


def run(*arguments):
    return main([str(a) for a in arguments])


def refused(capsys, *arguments):
    """The sentence of a refusal: status 2, one line, no traceback."""
    return refused_by(capsys, lambda: run(*arguments))


def refused_by(capsys, start):
    """The same of whatever is called."""
    with pytest.raises(SystemExit) as stop:
        start()
    assert stop.value.code == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    return lines[0]


# -- ablate ------------------------------------------------------------------------------


def ids_batch(number, seed):
    src, lengths, prev, target = batch([(5, 4)] * number, seed=seed)
    net = {"src_tokens": src, "src_lengths": lengths, "prev_output_tokens": prev}
    return {"id": torch.arange(number), "net_input": net, "target": target}


@pytest.fixture
def ablate(tmp_path, monkeypatch):
    """The command on a small model with random weights and twelve sentences, without reading files."""
    symbols = Namespace(target_dictionary=dictionary(12))
    monkeypatch.setattr(
        "fairseq_headprune.checkpoints.reading.load_model", lambda *_: (small_transformer(), None, symbols)
    )
    monkeypatch.setattr(sentence_loss, "load_batches", lambda *a: [ids_batch(a[4] or 12, seed=3)])
    (tmp_path / "model.pt").write_bytes(b"weights")

    def start(*more):
        return run(
            "ablate",
            tmp_path / "model.pt",
            "--data",
            "data-bin",
            "--out",
            tmp_path / "out",
            "--resamples",
            50,
            *more,
        )

    return start


def test_ablate_measures_every_head_and_some_bleu(ablate, tmp_path, capsys):
    ablate("--bleu", "1", "--beam", "2")
    data = ablation_table.read(tmp_path / "out" / "ablation.json")
    off = ablation_table.by_head(data)
    assert len(off) == 24 and len(ablation_table.by_head(data, "alone")) == 24
    assert sum(r["kind"] == "layer" and r["head"] is None for r in data["records"]) == 6
    for record in data["records"]:
        assert record["low"] <= record["difference"] <= record["high"]
        assert record["loss"] == pytest.approx(data["baseline"]["loss"] + record["difference"])
    assert data["baseline"]["sentences"] == 12 and data["baseline"]["signature"].startswith("nrefs:1")
    with_bleu = [head for head, r in off.items() if "bleu" in r]
    assert with_bleu == [max(off, key=lambda h: abs(off[h]["difference"]))]
    assert len(data["provenance"]["model"]["sha256"]) == 64 and data["provenance"]["layout"]["enc_self"]
    rows = list(csv.DictReader(open(tmp_path / "out" / "ablation.csv")))
    assert len(rows) == 54 and float(rows[0]["difference"]) == data["records"][0]["difference"]
    assert "one head off: of 24" in capsys.readouterr().out
    assert not (tmp_path / "out" / "ablation.partial.jsonl").exists()


def test_an_interrupted_ablation_goes_on(ablate, tmp_path, monkeypatch, capsys):
    original, calls = Scorer.losses, []

    def stops(self, off=()):
        calls.append(list(off))
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return original(self, off)

    monkeypatch.setattr(Scorer, "losses", stops)
    stop_at = 6  # the whole model and four heads
    with pytest.raises(SystemExit) as stop:
        ablate("--types", "enc-self", "--kinds", "without")
    assert stop.value.code == 130
    assert capsys.readouterr().err.endswith(
        "interrupted: what is measured is kept, and the same command goes on from there\n"
    )
    partial = tmp_path / "out" / "ablation.partial.jsonl"
    assert not (tmp_path / "out" / "ablation.json").exists() and len(partial.read_text().splitlines()) == 5
    with open(partial, "a") as file:
        file.write('{"kind": "without", "type": "enc_')  # killed while it wrote
    calls, stop_at = [], -1
    ablate("--types", "enc-self", "--kinds", "without")
    assert len(calls) == 1 + 4
    assert len(ablation_table.by_head(ablation_table.read(tmp_path / "out" / "ablation.json"))) == 8
    calls = []
    ablate("--types", "enc-self", "--kinds", "without,layer")
    assert [len(off) for off in calls] == [0, 4, 4]


def test_an_ablation_on_a_full_disk_goes_on(ablate, tmp_path, monkeypatch, capsys):
    some = ("--types", "enc-self", "--kinds", "without")
    with files_end_at(900):
        assert "goes on from there" in refused_by(capsys, lambda: ablate(*some))
    partial = (tmp_path / "out" / "ablation.partial.jsonl").read_text()
    kept = partial.count("\n") - 1
    assert kept > 0 and not partial.endswith("\n")
    calls, original = [], Scorer.losses
    monkeypatch.setattr(Scorer, "losses", lambda self, off=(): (calls.append(off), original(self, off))[1])
    ablate(*some)
    assert len(calls) == 1 + 8 - kept
    assert len(ablation_table.by_head(ablation_table.read(tmp_path / "out" / "ablation.json"))) == 8


def test_two_ablations_do_not_write_to_one_folder(ablate, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    with FolderLock(tmp_path / "out"):
        assert "another run is writing to" in refused_by(capsys, ablate)
    ablate("--types", "enc-self", "--kinds", "layer")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["ablation.csv", "ablation.json"]


def test_ablate_refuses_what_makes_no_sense(ablate, tmp_path, capsys):
    (tmp_path / "short.txt").write_text("one line\n")
    for more, words in (
        (["--references", "x"], "--references is for BLEU: add --bleu"),
        (["--references", tmp_path / "short.txt", "--bleu", "1"], "has 1 lines for 12 sentences"),
    ):
        with pytest.raises(SystemExit) as stop:
            ablate(*more)
        assert stop.value.code == 2 and words in capsys.readouterr().err
        assert not (tmp_path / "out").exists()  # told before hours of work
    ablate("--types", "enc-self", "--kinds", "layer")
    for more, words in (
        (["--kinds", "off"], "--kinds off"),
        (["--level", "1.5"], "--level must lie between 0 and 1"),
        (["--sentences", "0"], "--sentences must be at least 1"),
        (["--types", "enc"], "unknown attention type 'enc'"),
        (["--sentences", "5"], "belongs to another model, data or options"),
        (["--bleu", "enc-self:7:0"], "--bleu names enc-self:7:0, which the model does not have"),
        (["--bleu", "1", "--kinds", "layer"], "--bleu switches single heads off"),
    ):
        with pytest.raises(SystemExit) as stop:
            ablate(*more)
        assert stop.value.code == 2 and words in capsys.readouterr().err
    # the table of the first run is still whole
    assert len(ablation_table.read(tmp_path / "out" / "ablation.json")["records"]) == 2


def test_ablate_reads_checkpoints_and_data(tiny, tmp_path, capsys):
    start = ("ablate", tiny.checkpoint, "--data", tiny.data, "--out", tmp_path / "out", "--resamples", 20)
    run(*start, "--subset", "test", "--types", "dec-enc", "--kinds", "layer")
    data = ablation_table.read(tmp_path / "out" / "ablation.json")
    assert data["baseline"]["sentences"] == 24 and len(data["records"]) == 2
    assert all(r["loss"] > 0 and r["low"] <= r["difference"] <= r["high"] for r in data["records"])
    assert "--subset dev" in refused(capsys, *start, "--subset", "dev")
    assert "does not exist" in refused(
        capsys, "ablate", tmp_path / "no.pt", "--data", tiny.data, "--out", tmp_path
    )


def number_trees(path, lines):
    """Trees in which every word depends on the one before it: amod behind an even place, else nsubj."""
    trees = [
        [(w, n, "root" if n == 0 else ("amod" if n % 2 else "nsubj")) for n, w in enumerate(line.split())]
        for line in lines
    ]
    path.write_text(conllu_text(trees))


@pytest.fixture(scope="module")
def roles_of_tiny(tiny, tmp_path_factory):
    """A heads.json of the tiny model, with thresholds that some head passes, and trees of its test data."""
    folder = tmp_path_factory.mktemp("roles")
    number_trees(folder / "trees.conllu", (tiny.text / "test.src").read_text().splitlines())
    generate(
        *(tiny.data, "--path", tiny.checkpoint, "--beam", "1", "--max-len-b", "12", "--cpu", *USER_DIR),
        *("--task", "translation_headprune", "--num-workers", "0"),
        *("--dump-attention", folder / "dump", "--dump-types", "enc-self"),
    )
    run(
        *(
            "roles",
            folder / "dump",
            "--conllu",
            folder / "trees.conllu",
            "--out",
            folder / "roles",
            "--quiet",
        ),
        *("--positional-share", "0.2", "--margin", "0", "--relations", "amod,nsubj"),
    )
    return folder


@pytest.mark.parametrize("replace", ["zero", "uniform", "offset"])
def test_ablate_by_function_from_checkpoint_to_table(tiny, roles_of_tiny, tmp_path, capsys, replace):
    run(
        *("ablate", tiny.checkpoint, "--data", tiny.data, "--subset", "test", "--out", tmp_path / "out"),
        *("--by-function", roles_of_tiny / "roles" / "heads.json", "--heads", "enc-self:0:0,enc-self:1:2"),
        *("--conllu", roles_of_tiny / "trees.conllu", "--relations", "amod,nsubj", "--replace", replace),
        *("--resamples", 50),
    )
    data = json.loads((tmp_path / "out" / "by_function.json").read_text())
    records = {(r["set"], r["relation"]): r for r in data["records"]}
    sets = list(dict.fromkeys(name for name, _ in records))
    assert "positional" in sets and sets[-1] == "given heads" and data["baseline"]["unaligned"] == 0
    # the slow way: one sentence at a time, each with its own change
    model, _, task = load_model(str(tiny.checkpoint), str(tiny.data))
    sources = [len(line.split()) for line in (tiny.text / "test.src").read_text().splitlines()]
    offsets = {
        Head(h["type"], h["layer"], h["head"]): h["positional"]["offset"]
        for h in json.loads((roles_of_tiny / "roles" / "heads.json").read_text())["heads"]
    }
    task.load_dataset("test")
    sentences = task.dataset("test")
    one_by_one = [sentences.collater([sentences[i]]) for i in range(24)]
    scorer = Scorer(model, one_by_one, task.target_dictionary.pad())
    before = scorer.losses()
    for name in sets:
        record = records[name, None]
        heads = [parse_head(text) for text in record["heads"]]
        instead = {"zero": None, "uniform": dict.fromkeys(heads), "offset": {h: offsets[h] for h in heads}}
        after = scorer.losses(heads, instead[replace])
        change = (after.nats - before.nats).tolist()
        assert record["difference"] == pytest.approx(sum(change) / before.tokens.sum(), abs=1e-5)
        assert record["low"] <= record["difference"] <= record["high"]
        for relation, longer_than in (("amod", 1), ("nsubj", 2)):
            has = [n > longer_than for n in sources]
            slow = matched_change(list(zip(sources, has, change, before.tokens.tolist())))
            found = records[name, relation]
            assert [found[k] for k in ("sentences_with", "sentences_without", "unmatched")] == list(slow[2:])
            for side, value in zip(("with", "without"), slow):
                assert found[side] == (value if value is None else pytest.approx(value, abs=1e-5))
    assert (tmp_path / "out" / "by_function.csv").read_text().startswith("set,heads,relation,")
    said = capsys.readouterr().out
    assert "given heads (2)" in said and "contrast" in said


def test_sets_of_heads_that_make_no_sense(tiny, roles_of_tiny, tmp_path, capsys):
    start = ("ablate", tiny.checkpoint, "--data", tiny.data, "--subset", "test", "--out", tmp_path / "out")
    roles = ("--by-function", roles_of_tiny / "roles" / "heads.json")
    for more, words in (
        (["--replace", "uniform"], "--replace uniform is for sets of heads: add --by-function or --heads"),
        (["--conllu", "x"], "--conllu is for sets of heads"),
        ([*roles, "--bleu", "all"], "--bleu switches single heads off"),
        (["--heads", "enc-self:0:9"], "--heads names enc-self:0:9, which the model does not have"),
        (["--heads", "enc-self:0:0", "--replace", "offset"], "needs the best offset of enc-self:0:0"),
        ([*roles, "--conllu", tmp_path / "none"], "cannot read the parses"),
    ):
        assert words in refused(capsys, *start, *more)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("replace", ["zero", "uniform"])
def test_ablate_one_sentence(tiny, tmp_path, capsys, replace):
    run(
        *("ablate", tiny.checkpoint, "--data", tiny.data, "--subset", "test", "--out", tmp_path / "out"),
        *("--sentence", 5, "--replace", replace),
    )
    data = json.loads((tmp_path / "out" / "sentence-5.json").read_text())
    source = (tiny.text / "test.src").read_text().splitlines()[5].split()
    target = (tiny.text / "test.tgt").read_text().splitlines()[5].split()
    assert data["sentence"]["source"] == [*source, "</s>"] and data["sentence"]["target"] == [*target, "</s>"]
    model, _, task = load_model(str(tiny.checkpoint), str(tiny.data))
    ids = [task.source_dictionary.index(word) for word in [*source, "</s>"]]
    wanted = [task.target_dictionary.index(word) for word in [*target, "</s>"]]

    def log_p(model):
        prev = torch.tensor([wanted[-1:] + wanted[:-1]])
        with torch.no_grad():
            logits = model.eval()(torch.tensor([ids]), torch.tensor([len(ids)]), prev)[0]
        return [float(torch.log_softmax(logits[0, i], -1)[token]) for i, token in enumerate(wanted)]

    whole = log_p(model)
    assert data["sentence"]["log_p"] == pytest.approx(whole, abs=1e-5) and len(data["records"]) == 24
    for record in data["records"]:
        head = Head(record["type"], record["layer"], record["head"])
        if replace == "zero":  # for good, by the columns of W_O
            without = log_p(zeroed(load_model(str(tiny.checkpoint), str(tiny.data))[0], [head]))
        else:
            with heads_off(model, [head], {head: None}):
                without = log_p(model)
        assert record["changes"] == pytest.approx([a - b for a, b in zip(without, whole)], abs=1e-5)
        assert record["total"] == pytest.approx(sum(record["changes"]))
    rows = list(csv.DictReader(open(tmp_path / "out" / "sentence-5.csv")))
    assert len(rows) == 24 * len(wanted) and rows[1]["token"] == ([*target, "</s>"])[1]
    said = capsys.readouterr().out
    assert "This is one input" in said and f"source: {' '.join(source)}" in said


def test_ablate_one_sentence_of_some_heads(tiny, tmp_path, capsys):
    start = ("ablate", tiny.checkpoint, "--data", tiny.data, "--subset", "test", "--out", tmp_path / "out")
    for more, words in (
        (["--sentence", 24], "--sentence 24: --subset test has 24 sentences, counted from 0"),
        (["--sentence", -1], "--sentence must be at least 0"),
        (["--sentence", 0, "--bleu", "all"], "--bleu is for many sentences"),
        (["--sentence", 0, "--conllu", "x"], "--conllu is for many sentences"),
        (["--sentence", 0, "--replace", "offset"], "--replace offset is for --by-function"),
        (["--sentence", 0, "--heads", "dec-self:0:4"], "--heads names dec-self:0:4"),
        (["--sentence", 0, "--types", "none"], "--types none leaves no head"),
        (["--sentence", 0, "--max-tokens", 1], "--max-tokens 1 is less than the longest sentence"),
        (["--max-tokens", 1], "--max-tokens 1 is less than the longest sentence"),
    ):
        assert words in refused(capsys, *start, *more)
    assert not (tmp_path / "out").exists()
    run(*start, "--sentence", 0, "--heads", "dec-self:0:1,enc-self:1:2")
    data = json.loads((tmp_path / "out" / "sentence-0.json").read_text())
    assert [(r["type"], r["layer"], r["head"]) for r in data["records"]] == [
        ("enc_self", 1, 2),
        ("dec_self", 0, 1),
    ]


# -- figures -----------------------------------------------------------------------------


def test_figures_draws_what_it_can_and_says_what_is_missing(tmp_path, capsys):
    heads = write_heads_json(tmp_path / "roles")
    run("figures", "--heads", f"demo={heads}", "--out", tmp_path / "out")
    said = capsys.readouterr().out
    assert "fig07_bleu_encoder_heads: left out, needs the points of a sweep (--points)" in said
    assert "fig02_other_models: left out, needs a second heads.json" in said
    for name in ("fig01a_heads", "fig01c_heads", "fig03_relative_positions", "fig06_hard_concrete"):
        assert (tmp_path / "out" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / "out" / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
    assert "# Table 1" in (tmp_path / "out" / "table01_dependency_scores.md").read_text()


def test_figures_of_a_sweep_with_roles_beside_it(tmp_path, capsys):
    points = sweep()
    for record in points:
        record["functions"] = None
    removed = [
        ("enc_self", layer, h)
        for layer, row in enumerate(points[4]["layout"]["enc_self"])
        for h in range(8)
        if h not in row
    ]
    write_heads_json(tmp_path / "roles" / "enc-l2", removed=removed, functions={})
    run(
        "figures",
        "--points",
        write_points(tmp_path / "points", points),
        "--point-roles",
        tmp_path / "roles",
        "--out",
        tmp_path / "out",
        "--only",
        "fig08,table02",
    )
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "fig08_retained_functions.png",
        "fig08_retained_functions.pdf",
        "table02_all_types.md",
    }
    assert "all-l1" in (tmp_path / "out" / "table02_all_types.md").read_text()


def test_figures_refuses_bad_tables(tmp_path, capsys):
    out = tmp_path / "out"
    bad = tmp_path / "bad.json"
    for text, words in (
        ("{", "is no JSON"),
        ("[]", "has no 'heads'"),
        ('{"heads": [{"type": "enc_self"}]}', "record 0 of 'heads' lacks 'layer'"),
    ):
        bad.write_text(text)
        assert words in refused(capsys, "figures", "--heads", bad, "--out", out)
    good = write_heads_json(tmp_path / "roles")
    assert "cannot read a heads.json" in refused(
        capsys, "figures", "--heads", tmp_path / "no.json", "--out", out
    )
    assert "two tables are called 'a'" in refused(
        capsys, "figures", "--heads", f"a={good}", "--heads", f"a={good}", "--out", out
    )
    assert "--only fig42" in refused(capsys, "figures", "--heads", good, "--only", "fig42", "--out", out)
    assert "needs the points" in refused(capsys, "figures", "--heads", good, "--only", "fig07", "--out", out)
    assert "holds no JSON file of a sweep's point" in refused(
        capsys, "figures", "--points", tmp_path, "--out", out
    )
    points = sweep()[:1]
    points[0]["scores"] = {}
    assert "has no scores.together.bleu" in refused(
        capsys, "figures", "--points", write_points(tmp_path / "p", points), "--out", out
    )
    bad.write_text('{"sentences": [{}], "marked": [], "provenance": {}}')
    assert "is not a file of `analysis maps`" in refused(capsys, "figures", "--maps", bad, "--out", out)
    assert "is not a table of `analysis ablate`" in refused(
        capsys, "figures", "--ablation", bad, "--out", out
    )
    assert not out.exists()


# -- maps, report, compare ---------------------------------------------------------------


@pytest.fixture
def dump(tmp_path):
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(9)]
    sentences = [
        {"source": words[:n], "attention": {"enc_self": random_attention(rng, 6, 8, n + 1, n + 1)}}
        for n in (2, 9, 8)
    ]
    return write_dump(tmp_path / "dump", sentences, heads=8)


def test_maps_of_chosen_sentences_go_into_figure_and_page(dump, tmp_path, capsys):
    from fairseq_headprune.analysis import maps
    from fairseq_headprune.dump import open_dump

    out, heads = tmp_path / "maps.json", write_heads_json(tmp_path / "roles")
    run("maps", dump, "--out", out, "--sentences", "2,1", "--heads", heads)
    found = maps.read(out)
    assert [s.id for s in found.sentences] == [2, 1] and found.marked == [Head("enc_self", 0, 0)]
    stored = open_dump(dump)[1].attention["enc_self"][3, 5].astype(float)
    np.testing.assert_allclose(found.sentences[1].map(Head("enc_self", 3, 5)), stored, atol=0.5 / 255 + 1e-3)
    run("maps", dump, "--out", out, "--sentences", "1")
    assert [s.id for s in maps.read(out).sentences] == [1]  # the first of a good length
    (tmp_path / "ablation.json").write_text(json.dumps(ablation(heads_json())))
    run(
        "report",
        f"demo={heads}",
        "--maps",
        out,
        "--ablation",
        tmp_path / "ablation.json",
        "--out",
        tmp_path / "page.html",
    )
    assert "48 heads" in capsys.readouterr().out
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_maps_refuses_what_the_dump_lacks(dump, tmp_path, capsys):
    out = tmp_path / "maps.json"
    assert "has no dec-enc attention" in refused(capsys, "maps", dump, "--types", "dec-enc", "--out", out)
    assert "the dump has no sentence 7" in refused(capsys, "maps", dump, "--sentences", "7,", "--out", out)
    for text in ("x", "²", ""):
        assert "write ids like 3,17" in refused(capsys, "maps", dump, "--sentences", text, "--out", out)
    assert "no attention to take" in refused(capsys, "maps", dump, "--types", "none", "--out", out)
    assert "is a folder: name a file" in refused(capsys, "maps", dump, "--out", tmp_path)
    assert "--out is empty: name a file" in refused(capsys, "maps", dump, "--out", "")
    assert "has no map of it" in refused(capsys, "maps", dump, "--mark", "enc-self:9:0", "--out", out)
    assert not out.exists()


def test_report_refuses_to_set_two_models_side_by_side(tmp_path, capsys):
    heads = write_heads_json(tmp_path / "roles")
    other = ablation(heads_json(), model={"file": "other.pt", "sha256": "b" * 64})
    (tmp_path / "ablation.json").write_text(json.dumps(other))
    said = refused(
        capsys, "report", heads, "--ablation", tmp_path / "ablation.json", "--out", tmp_path / "page.html"
    )
    assert "is of another model (sha256 bbbbbbbbbbbb)" in said
    assert not (tmp_path / "page.html").exists()


def test_compare_writes_three_tables(dump, tmp_path, capsys):
    one = write_heads_json(tmp_path / "one", seed=1)
    two = write_heads_json(tmp_path / "two", seed=2)
    run(
        "match",
        f"a={one}",
        f"b={two}",
        "--dumps",
        f"a={dump}",
        f"b={dump}",
        "--attention-weight",
        "1",
        "--out",
        tmp_path / "out",
    )
    data = json.loads((tmp_path / "out" / "compare.json").read_text())
    matching = data["matchings"][0]
    assert matching["shared_sentences"] == 3 and matching["matched"] == matching["same_number"] == 48
    assert all(p["head"] == p["other"] and p["attention_similarity"] > 0.99 for p in matching["pairs"])
    assert data["models"][0]["functions"]["positional"] == 2
    rows = list(csv.DictReader(open(tmp_path / "out" / "compare.csv")))
    assert len(rows) == 48 and rows[0]["functions"] == "rare words"
    text = (tmp_path / "out" / "compare.md").read_text()
    assert (
        "48 of 48 heads matched by role and attention on 3 sentences" in text
        and text in capsys.readouterr().out
    )


def test_compare_with_a_pruned_model_leaves_heads_alone(tmp_path):
    removed = [
        ("enc_self", layer, h) for layer in range(6) for h in range(8) if (layer, h) not in ((0, 0), (0, 1))
    ]
    one = write_heads_json(tmp_path / "one")
    few = write_heads_json(tmp_path / "few", removed=removed)
    run("match", one, few, "--out", tmp_path / "out")
    matching = json.loads((tmp_path / "out" / "compare.json").read_text())["matchings"][0]
    assert (matching["matched"], matching["unmatched"]) == (2, 46)
    matched = {p["head"]: p["other"] for p in matching["pairs"] if p["other"]}
    assert matched == {"enc-self:0:0": "enc-self:0:0", "enc-self:0:1": "enc-self:0:1"}


def test_compare_refuses_bad_input(dump, tmp_path, capsys):
    one, two = write_heads_json(tmp_path / "one"), write_heads_json(tmp_path / "two")
    out = tmp_path / "out"
    assert "at least two" in refused(capsys, "match", one, "--out", out)
    assert "--least must lie between" in refused(capsys, "match", one, two, "--least", "2", "--out", out)
    assert "no heads.json is called 'three'" in refused(
        capsys, "match", one, two, "--dumps", f"three={dump}", "--out", out
    )
    assert "--types dec-enc" in refused(capsys, "match", one, two, "--types", "dec-enc", "--out", out)
    label = head_table.split_label(str(one))[0]
    assert "--dumps must name a dump of" in refused(
        capsys, "match", one, two, "--dumps", f"{label}={dump}", "--out", out
    )
    assert not out.exists()
