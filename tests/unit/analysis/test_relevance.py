"""Comparison of relevance rules: ranks, dominance, and files that are something else."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from fairseq_headprune.analysis import relevance
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.commands import main
from fairseq_headprune.dump import DumpWriter, make_manifest, open_dump
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout

LAYOUT = HeadLayout(enc_self=((0, 1, 2), (1, 2)), dec_self=((0, 1, 2), ()), dec_enc=((0, 2), (0, 1, 2)))


def saved(path, rule="z-plus", seed=0, sha="ab", **shares):
    rng = np.random.default_rng(seed)
    grids = {}
    for type in ATTENTION_TYPES:
        grid = rng.random((2, 3)) * LAYOUT.masks(dict.fromkeys(ATTENTION_TYPES, 3))[type]
        total = grid.sum(1, keepdims=True)
        grids[type] = (grid / np.where(total, total, 1)).tolist()
    grids.update(shares)
    data = {
        "provenance": {
            "model": {"file": "m.pt", "sha256": sha},
            "data": {"subset": "valid"},
            "options": {"relevance": {"rule": rule}},
        },
        "counts": {"sentences": 3, "steps": 9, "steps_left_out": 0},
        "layout": LAYOUT.to_dict(),
        "relevance": grids,
        "magnitude": grids,
    }
    path.write_text(json.dumps(data))
    return path


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_spearman_is_scipys(pairs):
    a, b = zip(*pairs)
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert relevance.spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    else:
        assert relevance.spearman(a, b) is None


def test_a_rule_agrees_with_itself_and_with_its_mirror_not_at_all(tmp_path):
    one = relevance.read(saved(tmp_path / "a.json"))
    for row in relevance.agreement(one, one).values():
        assert row["all"] == pytest.approx(1) and row["mean"] == pytest.approx(1)
        assert row["same_top"] == row["of"]
    # layers with one head or none have no order
    assert [relevance.agreement(one, one)[t]["of"] for t in ATTENTION_TYPES] == [2, 1, 2]
    mirror = relevance.RelevanceTable(
        "x", one.provenance, one.counts, LAYOUT, {t: 1 - one.shares[t] for t in ATTENTION_TYPES}
    )
    for row in relevance.agreement(one, mirror).values():
        assert row["mean"] == pytest.approx(-1) and row["same_top"] == 0


def test_dominance_of_known_layers(tmp_path):
    shares = [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]
    table = relevance.read(saved(tmp_path / "a.json", enc_self=shares))
    first, second = relevance.dominance(table)["enc_self"]
    assert first["first"] == 0.5 and first["two"] == 0.75 and first["uniform"] == 1 / 3
    assert first["effective"] == pytest.approx(2**1.5)
    assert (second["heads"], second["first"], second["effective"]) == (2, 1, 1)
    assert [row["layer"] for row in relevance.dominance(table)["dec_self"]] == [0]
    assert str(relevance.top_heads(table, "enc_self")[0]) == "enc-self:1:1"


def test_a_decoder_without_self_attention_has_no_line_of_it(tmp_path):
    for rule, seed in (("z-plus", 0), ("epsilon", 1)):
        path = saved(tmp_path / f"{rule}.json", rule=rule, seed=seed, dec_self=[])
        data = json.loads(path.read_text())
        data["layout"]["dec_self"] = []
        path.write_text(json.dumps(data))
    assert (
        main(["relevance", tmp_path / "z-plus.json", tmp_path / "epsilon.json", "--out", tmp_path / "out"])
        == 0
    )
    pictures = {f"{rule}_{type}.png" for rule in ("z-plus", "epsilon") for type in ("enc-self", "dec-enc")}
    assert {p.name for p in (tmp_path / "out").iterdir()} == pictures | {"agreement.json"}
    comparison = json.loads((tmp_path / "out/agreement.json").read_text())
    assert "dec_self" not in comparison["agreement"][0] and "dec-self" not in relevance.markdown(comparison)


def test_tables_of_different_models_are_not_compared(tmp_path):
    tables = [
        relevance.read(saved(tmp_path / "a.json")),
        relevance.read(saved(tmp_path / "b.json", rule="epsilon", seed=1, sha="cd")),
    ]
    with pytest.raises(UserError, match="different model"):
        relevance.compare(tables)
    with pytest.raises(UserError, match="two tables are of the rule z-plus"):
        relevance.compare([tables[0], tables[0]])
    (tmp_path / "c.json").write_text('{"heads": []}')
    with pytest.raises(UserError, match="is not a table of"):
        relevance.read(tmp_path / "c.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["magnitude"].update(enc_self=[[1, 2, 3], [1]]),
        lambda data: data["magnitude"].update(enc_self=[[1, 2], [3, 4]]),
        lambda data: data["magnitude"].update(enc_self=[[1, 2, 3]]),
        lambda data: data["magnitude"].update(enc_self="words"),
        lambda data: data["magnitude"].update(enc_self=[[1, 2, float("nan")], [1, 2, 3]]),
        lambda data: data["provenance"].pop("model"),
        lambda data: data["provenance"].update(data="test"),
        lambda data: data["provenance"]["options"].update(relevance={"rule": "../z-plus"}),
        lambda data: data["provenance"]["options"].update(relevance={"rule": 3}),
        lambda data: data.update(counts=3),
    ],
)
def test_a_damaged_table_is_named(tmp_path, change):
    data = json.loads(saved(tmp_path / "a.json").read_text())
    change(data)
    (tmp_path / "a.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match="a.json is not a table of .* make it anew"):
        relevance.read(tmp_path / "a.json")


def dumped(directory):
    manifest = make_manifest(
        model={"file": "m.pt", "sha256": "ab"},
        layout=LAYOUT,
        num_heads=dict.fromkeys(ATTENTION_TYPES, 3),
        attention=(),
        relevance=ATTENTION_TYPES,
        options={"relevance": {"rule": "epsilon"}},
    )
    rng = np.random.default_rng(0)
    steps = {}
    with DumpWriter(directory, manifest) as writer:
        for id in (3, 0, 1, 2):
            steps[id] = {
                t: rng.normal(size=(id + 1, LAYOUT.counts()[t])).astype(np.float32) for t in ATTENTION_TYPES
            }
            writer.add(id, ["</s>"], ["x"] * id + ["</s>"], {}, steps[id])
    return steps


def test_halves_are_the_means_of_even_and_odd_sentences(tmp_path):
    steps = dumped(tmp_path)
    even, odd = relevance.split_half(open_dump(tmp_path))
    for half, ids in ((even, (0, 2)), (odd, (1, 3))):
        every = np.abs(np.concatenate([steps[id]["enc_self"] for id in ids]))
        first = every[:, :3] / every[:, :3].sum(1, keepdims=True)
        np.testing.assert_allclose(half.shares["enc_self"][0], first.mean(0), rtol=1e-5)
        assert half.counts["steps"] == sum(id + 1 for id in ids)


def test_the_command_draws_every_type_of_every_rule(tmp_path, capsys):
    paths = [
        str(saved(tmp_path / f"{rule}.json", rule=rule, seed=n))
        for n, rule in enumerate(("alpha-beta", "epsilon"))
    ]
    dumped(tmp_path / "d")
    main(["relevance", *paths, "--dump", str(tmp_path / "d"), "--out", str(tmp_path / "out")])
    names = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert len(names) == 6 and "epsilon_dec-enc.png" in names
    comparison = json.loads((tmp_path / "out" / "agreement.json").read_text())
    assert comparison["agreement"][0]["rules"] == ["alpha-beta", "epsilon"]
    printed = capsys.readouterr().out
    assert "| alpha-beta and epsilon | enc-self |" in printed and "epsilon, two halves" in printed
