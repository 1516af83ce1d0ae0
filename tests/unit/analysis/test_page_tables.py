"""Tables of results pages."""

import json

import pytest

from fairseq_headprune.analysis import page_tables
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.commands import main
from tests.conftest import ROOT
from tests.helpers.analysis_tables import ablation
from tests.helpers.heads_json import heads_json, write_heads_json


@pytest.fixture
def folder(tmp_path):
    """Two models with heads.json, the second without most encoder heads; an ablation of the first."""
    write_heads_json(tmp_path / "whole", types=("enc_self", "dec_enc"))
    removed = [("enc_self", layer, h) for layer in range(6) for h in range(8) if (layer, h) != (0, 0)]
    write_heads_json(tmp_path / "pruned", removed=removed, seed=2)
    table = ablation(heads_json(types=("enc_self", "dec_enc")), clear=[("enc_self", 0, 1)])
    for layer in range(6):
        table["records"].append(
            {
                "kind": "layer",
                "type": "enc_self",
                "layer": layer,
                "head": None,
                "loss": 1.8,
                "difference": 0.1 + layer / 100,
                "low": 0.05,
                "high": 0.2,
            }
        )
    one = table["records"][2]
    assert (one["layer"], one["head"], one["kind"]) == (0, 1, "without")
    one.update(bleu=37.0, bleu_difference=-0.456, bleu_low=-0.8, bleu_high=-0.1, bleu_p=0.012)
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / "ablation.json").write_text(json.dumps(table))
    return tmp_path


def show(folder, name, names):
    return page_tables.make_table(name, names, folder)


def records(folder, model):
    made = json.loads((folder / model / "heads.json").read_text())["heads"]
    return {(r["type"], r["layer"], r["head"]): r for r in made}


def test_sets_are_counted(folder):
    text = show(folder, "roles-sets", ".")
    assert "| whole | 200 | 1,800 | gold | 0 | 2 | 3 | 1 | 8 |" in text
    assert "| pruned | 200 | 1,800 | gold | 0 | 0 | 0 | 1 | 0 |" in text


def test_the_other_reading_of_the_margin_counts_heads_of_its_own(folder):
    table = json.loads((folder / "pruned" / "heads.json").read_text())
    one = table["heads"][0]["syntactic"]["nsubj"]["h->d"]
    one.update(baseline=0.36, accuracy=0.40)  # 4 points above it, and 11 %
    (folder / "pruned" / "heads.json").write_text(json.dumps(table))
    assert "| pruned | 200 | 1,800 | gold | 0 | 0 | 0 | 1 | 1 |" in show(folder, "roles-sets", ".")


def test_the_nearest_heads_are_those_with_the_largest_shares(folder):
    made = {key: r for key, r in records(folder, "whole").items() if key[0] == "enc_self"}
    (_, layer, head), best = max(made.items(), key=lambda item: item[1]["positional"]["share"])
    line = next(x for x in show(folder, "roles-nearest", ".").splitlines() if x.startswith("| whole"))
    p = best["positional"]
    at = f"{p['offset']:+d}".replace("-", "−")
    assert (
        f"| whole | {layer}:{head} | {at} | {100 * p['share']:.1f} [{100 * p['low']:.1f}, {100 * p['high']:.1f}] |"
        in line
    )
    rare = records(folder, "whole")["enc_self", 0, 0]["rare"]
    assert f"| 0:0 | {100 * rare['rarest']:.1f} [" in line and "| 14.0 |" in line


def test_relations_show_accuracy_and_gain_of_each_models_best_head(folder):
    text = show(folder, "roles-relations", ".")
    best = records(folder, "whole")["enc_self", 2, 1]["syntactic"]["nsubj"]["h->d"]
    line = next(x for x in text.splitlines() if x.startswith("| nsubj v→s"))
    assert f"2:1 {100 * best['accuracy']:.1f} (+{100 * best['gain']:.1f} [" in line
    assert len(text.splitlines()) == 2 + 8


def test_what_is_left_is_bold_where_it_meets_a_criterion(folder):
    lines = show(folder, "roles-left", ".").splitlines()
    assert lines[2].startswith("| whole | 48 | **") and lines[3].startswith("| pruned | 1 | 0:0 at ")
    rare = records(folder, "pruned")["enc_self", 0, 0]["rare"]
    assert f"**0:0 {100 * rare['two_rarest']:.1f}**" in lines[3]


def test_correlations_are_those_of_ranks(folder):
    table = json.loads((folder / "whole" / "heads.json").read_text())
    for number, r in enumerate(table["heads"]):
        r["relevance"], r["confidence"] = number / 100, 1 - (number / 200) ** 2
    (folder / "whole" / "heads.json").write_text(json.dumps(table))
    off = json.loads((folder / "off" / "ablation.json").read_text())
    for number, r in enumerate(r for r in off["records"] if r["kind"] == "without"):
        r["difference"] = float(number**3)
    (folder / "off" / "ablation.json").write_text(json.dumps(off))
    assert "| enc-self | 48 | −1.00 | +1.00 | −1.00 |" in show(folder, "roles-correlation", "whole,off")


def test_heads_off_are_counted_by_their_interval(folder):
    text = show(folder, "off-without", "off")
    assert (
        "| enc-self | 48 | 1 | 0 | 47 | +0.0300 (0:1), " in text and "| dec-enc | 48 | 0 | 0 | 48 |" in text
    )
    assert "| 5 | +0.150 [+0.050, +0.200] | – |" in show(folder, "off-layers", "off")
    assert "| 0 | +0.100 | +0.001 (0) | +0.030 (1) | – | +0.001 (0) | +0.001 (7) |" in show(
        folder, "off-alone", "off"
    )


def test_bleu_is_shown_of_the_heads_that_have_it(folder):
    text = show(folder, "off-bleu", "off")
    assert text.splitlines()[2:] == [
        "| enc-self 0:1 | +0.0300 [+0.0280, +0.0320] | −0.46 [−0.80, −0.10] | 0.012 |"
    ]


def by_function(folder, replace, heads="positional", contrast=0.01):
    """A table of ``ablate --by-function`` with one set and one relation, under the name of its replacement."""
    about = {"set": heads, "heads": ["enc-self:0:1", "enc-self:2:0"]}
    ends = {"contrast_low": None if contrast is None else -0.005, "contrast_high": 0.02}
    records = [
        {**about, "relation": None, "difference": 0.03, "low": 0.02, "high": 0.04},
        {
            **about,
            "relation": "obj",
            "contrast": contrast,
            **ends,
            "sentences_with": 7,
            "sentences_without": 9,
        },
    ]
    path = folder / replace / "by_function.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"provenance": {"options": {"replace": replace}}, "records": records}))


def test_heads_of_a_function_side_by_side(tmp_path):
    by_function(tmp_path, "uniform", contrast=None)
    by_function(tmp_path, "zero")
    assert show(tmp_path, "off-function", ".").splitlines() == [
        "| heads | sentences | zero | uniform |",
        "| --- | --- | ---: | ---: |",
        "| positional: enc-self:0:1, enc-self:2:0 | all | +0.0300 [+0.0200, +0.0400] | +0.0300 [+0.0200, +0.0400] |",
        "|  | obj, 7 / 9 | +0.0100 [−0.0050, +0.0200] | – |",
    ]
    by_function(tmp_path, "offset", heads="syntactic")
    with pytest.raises(UserError, match="are of different sets"):
        show(tmp_path, "off-function", ".")
    with pytest.raises(UserError, match="has no folder with a by_function.json"):
        show(tmp_path, "off-function", "zero")


def test_measures_that_are_missing_are_dashes(folder):
    table = json.loads((folder / "pruned" / "heads.json").read_text())
    for r in table["heads"]:
        r["relevance"] = r["rare"] = None
    table["provenance"]["parses"] = None
    (folder / "pruned" / "heads.json").write_text(json.dumps(table))
    assert "| – | – | – | – | 0:0 | 0." in show(folder, "roles-nearest", ".")
    assert "| – | 0:0 0." in show(folder, "roles-left", ".")
    assert "| pruned | 200 | 1,800 | none |" in show(folder, "roles-sets", ".")


@pytest.mark.parametrize(
    "marker, message",
    [
        ("roles-sets nowhere", "no folder with a heads.json"),
        ("nothing .", "asks for a table 'nothing'"),
        ("roles-correlation whole", r"made from 2 folder\(s\)"),
        ("off-bleu off,off", r"made from 1 folder\(s\)"),
        ("off-bleu whole", "cannot read an ablation table"),
    ],
)
def test_what_cannot_be_made_is_refused(folder, marker, message):
    with pytest.raises(UserError, match=message):
        page_tables.make_table(*marker.split(), folder)


def test_a_page_is_made_anew_in_place(folder, capsys):
    page = folder / "page.md"
    page.write_text("# Page\n<!-- table off-bleu off -->\n<!-- end -->\n")
    with pytest.raises(SystemExit) as stopped:
        main(["page", str(page), "--check"])
    assert stopped.value.code == 2 and "does not show what its files say" in capsys.readouterr().err
    main(["page", str(page)])
    assert "| enc-self 0:1 |" in page.read_text() and page.read_text().startswith("# Page\n")
    main(["page", str(page), "--check"])


def test_a_missing_page_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["page", str(tmp_path / "none.md")])
    assert "cannot read the page" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["roles-multi30k", "ablation-multi30k"])
def test_the_committed_pages_are_up_to_date(name):
    main(["page", str(ROOT / "analysis" / "results" / name / "README.md"), "--check"])
