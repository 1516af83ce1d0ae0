"""A Marian model with SSRUs, imported, through every program: fairseq's, ours, and the analysis of its heads."""

import gc
import json
from types import SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import progress_bar
from fairseq_cli import validate as validate_cli

from fairseq_headprune.commands import main
from fairseq_headprune.dump import open_dump
from tests.helpers.command_lines import USER_DIR, generate, interactive, preprocess, train

LINES = 24
LAYOUT = '{"enc_self": [[0, 3], [1], [2]], "dec_self": [], "dec_enc": [[0, 2], [3]]}'
FORM = (
    "--encoder-layers 3 --decoder-layers 2 --encoder-embed-dim 32 --decoder-embed-dim 32 "
    "--encoder-ffn-embed-dim 64 --decoder-ffn-embed-dim 64 --encoder-attention-heads 4 "
    "--decoder-attention-heads 4 --share-all-embeddings --position-encoding marian --decoder-self ssru "
    "--decoder-start zero --output-bias --no-unk"
).split()
PAIR = ("--task", "translation_headprune", "-s", "en", "-t", "de")


@pytest.fixture(scope="module")
def made(shared, tmp_path_factory):
    """``model`` imported, ``small`` and ``half`` with a third of its heads; ``data``; ``sources``."""
    root, marian = tmp_path_factory.mktemp("ssru"), shared / "oracle/marian"
    folder = root / "model"
    languages = ["--source-lang", "en", "--target-lang", "de"]
    assert main(["import", marian / "ssru/model.npz", "--out", folder, *languages]) == 0
    sources = (marian / "input.en").read_text(encoding="utf-8").split("\n")[:LINES]
    entries = (marian / "ssru/beam1.txt").read_text(encoding="utf-8").splitlines()[:LINES]
    for language, lines in (("en", sources), ("de", [e.split(" ||| ")[1] for e in entries])):
        (root / f"text.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = [word for part in ("train", "valid", "test") for word in (f"--{part}pref", root / "text")]
    words = ["--srcdict", folder / "dict.en.txt", "--tgtdict", folder / "dict.de.txt"]
    preprocess(*languages, *words, *text, "--destdir", root / "data")
    for name, more in (("small", []), ("half", ["--fp16"])):
        main(["remove", folder / "model.pt", root / f"{name}.pt", "--layout", LAYOUT, *more])
    return SimpleNamespace(
        root=root,
        model=folder / "model.pt",
        small=root / "small.pt",
        half=root / "half.pt",
        data=root / "data",
        sources=sources,
    )


def search(made, checkpoint, *more):
    common = ["--path", checkpoint, "--beam", "2", "--max-len-b", "40", "--cpu", "--num-workers", "0"]
    return [made.data, *common, "--max-tokens", "600", *USER_DIR, *more]


def hypotheses(text):
    """Number -> ``(score, words)`` of the H lines."""
    rows = (line.split("\t") for line in text.splitlines() if line.startswith("H-"))
    return {int(row[0][2:]): (float(row[1]), row[2]) for row in rows}


def valid_loss(checkpoint, made, monkeypatch):
    """What fairseq-validate says of it, bits a token."""
    args = [
        made.data,
        *USER_DIR,
        "--path",
        checkpoint,
        "--max-tokens",
        "600",
        "--cpu",
        "--task",
        "translation",
    ]
    args += ["--task", "translation", "--log-format", "none"]
    parser = options.get_validation_parser()
    parsed = options.parse_args_and_arch(parser, [str(a) for a in args])
    found = []
    monkeypatch.setattr(
        progress_bar.NoopProgressBar, "print", lambda bar, stats, **_: found.append(stats["loss"])
    )
    validate_cli.main(convert_namespace_to_omegaconf(parsed), parsed)
    return float(found[-1])


def test_layout_and_compare_show_two_types(made, capsys):
    main(["layout", made.model])
    table = capsys.readouterr().out.split("layout:")[0]
    assert "enc-self" in table and "dec-self" not in table
    main(["compare", f"whole={made.model}", f"small={made.small}", "--data", made.data, "--beam", "1"])
    assert capsys.readouterr().out.split()[:4] == ["model", "enc-self", "dec-enc", "BLEU"]


def test_half_precision_and_the_interactive_program_find_the_same(made):
    found = hypotheses(generate(*search(made, made.small)))
    halved = hypotheses(generate(*search(made, made.half)))
    assert len(found) == LINES and not any("<unk>" in text for _, text in found.values())
    assert sum(halved[i] == found[i] or halved[i][1] == found[i][1] for i in found) >= LINES - 2
    typed = hypotheses(interactive(made.sources[:3], *search(made, made.small, "-s", "en", "-t", "de")))
    assert [typed[i][1] for i in range(3)] == [found[i][1] for i in range(3)]


def test_it_is_pruned_and_validated(made, monkeypatch):
    common = [
        "--criterion",
        "label_smoothed_cross_entropy_l0",
        "--label-smoothing",
        "0.1",
        "--optimizer",
        "adam",
    ]
    common += ["--lr", "0.001", "--max-tokens", "600", "--max-update", "4", "--cpu", "--no-epoch-checkpoints"]
    common += ["--log-format", "none", "--seed", "1", *USER_DIR]
    train(
        *(made.data, "--arch", "gated_transformer", *FORM, "--finetune-from-model", made.model),
        *("--l0-lambda", "0.1", "--save-dir", made.root / "gated", *common),
    )
    last = made.root / "gated/checkpoint_last.pt"
    state = torch.load(last, weights_only=True)
    gates = [name for name in state["model"] if name.endswith("scaled_log_a")]
    assert len(gates) == 5 and not any("decoder" in name and "self_attn" in name for name in gates)
    # the model was trained on its own translations: a finite loss, and a smaller one
    before, after = valid_loss(made.model, made, monkeypatch), valid_loss(last, made, monkeypatch)
    assert 0 < after < before < 5
    main(["remove", last, made.root / "pruned.pt", "--keep", "10"])
    train(
        *(made.data, "--arch", "pruned_transformer", *FORM, "--head-layout", made.root / "pruned.pt"),
        *("--finetune-from-model", made.root / "pruned.pt", "--save-dir", made.root / "tuned", *common),
    )
    tuned = made.root / "tuned/checkpoint_last.pt"
    assert valid_loss(tuned, made, monkeypatch) < valid_loss(made.root / "pruned.pt", made, monkeypatch)


@pytest.mark.parametrize("rule", ["alpha-beta", "epsilon", "z-plus"])
def test_relevance_is_printed_and_stored_of_the_heads_that_exist(made, rule):
    dump, table = made.root / f"dump-{rule}", made.root / f"{rule}.json"
    printed = generate(
        *search(made, made.small, *PAIR, "--dump-attention", dump, "--head-relevance", rule),
        *("--relevance-table", table),
    )
    gc.collect()
    assert "enc-self" in printed and "dec-self" not in printed
    record = next(iter(open_dump(dump)))
    assert not record.relevance["dec_self"].size and record.relevance["dec_enc"].shape[1] == 2  # layers
    assert not sum(layer.size for layer in record.attention["dec_self"])
    assert json.loads(table.read_text())["relevance"]["dec_self"] == []


def test_the_analysis_of_its_heads(made, capsys):
    out = made.root / "analysis"
    dump = made.root / "dump-text"
    arguments = search(made, made.small, *PAIR, "--dump-attention", dump, "--head-relevance", "epsilon")
    interactive(made.sources, *arguments, "--buffer-size", "100")
    gc.collect()
    trees = []
    for line in made.sources:
        for i, word in enumerate(line.replace("@@ ", "").replace("@-@", "-").split(), 1):
            trees.append(f"{i}\t{word}\t{word}\tNOUN\t_\t_\t{i - 1}\t{'root' if i == 1 else 'obj'}\t_\t_")
        trees.append("")
    (made.root / "trees.conllu").write_text("\n".join(trees) + "\n", encoding="utf-8")
    main(["roles", dump, "--conllu", made.root / "trees.conllu", "--out", out / "roles", "--quiet"])
    heads = json.loads((out / "roles/heads.json").read_text())
    assert {h["type"] for h in heads["heads"]} == {"enc_self", "dec_enc"} and len(heads["heads"]) == 7
    main(["ablate", made.small, "--data", made.data, "--subset", "test", "--out", out / "off"])
    main(["maps", dump, "--out", out / "maps.json", "--sentences", "0,1"])
    more = ["--ablation", out / "off/ablation.json", "--maps", out / "maps.json"]
    main(["figures", "--heads", out / "roles/heads.json", *more, "--out", out / "figures"])
    main(["report", out / "roles/heads.json", *more, "--out", out / "page.html"])
    both = [f"{name}={out / 'roles/heads.json'}" for name in "ab"]
    main(["match", *both, "--types", "all", "--out", out / "match"])
    assert (out / "page.html").is_file() and list((out / "figures").glob("fig01*"))
    shown = capsys.readouterr().out + "".join(p.read_text() for p in (out / "match").glob("*.md"))
    assert "enc-self" in shown and "dec-self" not in shown
