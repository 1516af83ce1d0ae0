"""The page: what it claims, and that it holds together in a real browser."""

import json
import re

import pytest

from fairseq_headprune.analysis import head_table, maps
from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.analysis.report import claims
from fairseq_headprune.analysis.report.page import build, embed, page_data
from fairseq_headprune.units.layout import Head
from tests.helpers.analysis_tables import NASTY, ablation, write_maps
from tests.helpers.browser import browser, need_chromium
from tests.helpers.heads_json import heads_json, write_heads_json

POSITIONAL = Head("enc_self", 0, 1)


@pytest.fixture
def table(tmp_path):
    return head_table.read(f"demo={write_heads_json(tmp_path, types=('enc_self', 'dec_enc'))}")


def everything(claim):
    return json.dumps(claim, ensure_ascii=False)


def test_a_claim_names_checkpoint_head_data_measure_and_uncertainty(table):
    claim = claims.claim(table, POSITIONAL)
    assert (
        "Head 1 of enc-self layer 0" in claim["where"]
        and "model-1.pt (sha256 000000000000)" in claim["where"]
    )
    assert "200 sentences" in claim["where"]
    record = table.records[POSITIONAL]["positional"]
    seen = claim["observed"][0]
    assert f"{100 * record['share']:.1f} % of {record['n']:,} query tokens" in seen["seen"]
    assert f"{100 * record['low']:.1f} to {100 * record['high']:.1f} %" in seen["seen"]
    assert "at least 90.0 %" in seen["criterion"] and seen["holds"] == "yes"


SYNTACTIC = Head("enc_self", 2, 1)


def test_a_syntactic_claim_shows_its_gain_and_what_it_was_chosen_from(table):
    claim = claims.claim(table, SYNTACTIC)
    m = table.records[SYNTACTIC]["syntactic"]["nsubj"]["h->d"]
    (seen,) = (o for o in claim["observed"] if o["seen"].startswith("nsubj, from the syntactic head"))
    low, high = 100 * m["gain_low"], 100 * m["gain_high"]
    assert f"a gain of +20.0 points (95 % interval {low:+.1f} to {high:+.1f}), p = 0.0001" in seen["seen"]
    assert f"not at that position: {100 * m['away']:.1f} % of {m['away_n']:,}" in seen["seen"]
    assert seen["holds"] == "yes" and seen["criterion"].endswith("whole interval of the gain is above that.")
    was, m["gain_low"] = m["gain_low"], 0.05
    (seen,) = (o for o in claims.observed(table, SYNTACTIC) if o["holds"] == "yes")
    assert "The interval of the gain holds both sides of that" in seen["criterion"]
    m["gain_low"] = was
    reasons, chosen, *_ = claim["open"]
    assert "Tested" in reasons and "position" in reasons and "Not tested: how frequent" in reasons
    assert "those of trees.conllu are taken as right" in reasons
    assert chosen.startswith("384 combinations of head, relation and direction were looked at")
    above = sum(m["gain_low"] > 0 for m in table.tests())
    assert f"some 10 intervals of the gain above 0; {above} are" in chosen and "3 gains remain" in chosen
    assert len(claims.claim(table, POSITIONAL)["open"]) == 1
    table.provenance["parses"] = {"kind": "stanza", "parser": "stanza 1"}
    assert "errors of the parser (trees are those of stanza 1)" in claims.alternatives(table)[0]


def test_tables_from_before_the_tests_against_chance(table):
    for m in table.tests():
        for key in ("gain_p", "gain_p_holm", "away", "away_n", "away_low", "away_high", "by_distance"):
            del m[key]
    seen = everything(claims.claim(table, SYNTACTIC))
    assert "a gain of" in seen and "p =" not in seen and "gains remain" not in seen


def test_without_an_intervention_nothing_is_said_about_effects(table):
    claim = claims.claim(table, POSITIONAL)
    assert (
        claim["headline"]
        == "Observed only: this head shows the pattern positional -1; its effect was not tested."
    )
    assert claim["intervened"] == [
        "Nothing was changed. What the model's output owes to this head is not known: the observations above do not show it."
    ]


@pytest.mark.parametrize("low, high, words", [
    (0.01, 0.02, "the loss grows"), (-0.02, -0.01, "the loss falls"), (-0.01, 0.02, "less than can be told from chance"),
])  # fmt: skip
def test_the_headline_is_as_strong_as_the_interval(low, high, words):
    off = {"difference": (low + high) / 2, "low": low, "high": high}
    assert words in claims.headline([], off)


def test_an_intervention_is_told_with_its_rule_metric_data_and_interval(table):
    data = ablation(heads_json(), clear=[POSITIONAL])
    off = ablation_table.by_head(data)[POSITIONAL]
    claim = claims.claim(table, POSITIONAL, off, ablation_table.by_head(data, "alone")[POSITIONAL], data)
    first = claim["intervened"][0]
    for part in (
        "its output is zero",
        "+0.0300 nats per target token",
        "95 % interval +0.0280 to +0.0320",
        "1,014 sentences of data-bin, subset valid",
        "worse",
    ):
        assert part in first
    assert claim["intervened"][1].startswith("All other heads of its layer")
    assert "Observed and tested" in claim["headline"] and len(claim["open"]) == 3


def test_decoder_heads_and_missing_measures_are_told_without_numbers(table):
    head = Head("dec_enc", 3, 2)
    observed = claims.claim(table, head)["observed"]
    assert not any("nsubj" in o["seen"] or "rarest" in o["seen"] for o in observed)
    table.records[head]["positional"].update(share=None)
    table.records[head].update(relevance=None, confidence=None)
    assert claims.claim(table, head)["observed"] == [
        {"seen": "No query token was counted.", "criterion": "", "holds": ""}
    ]


def test_data_cannot_leave_its_place_in_the_page():
    text = embed({"a": "</script><!--&\u2028"})
    assert not re.search(r"[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!--&\u2028"}


def test_the_page_asks_for_nothing_from_outside(table, tmp_path):
    text = build(table, ablation(heads_json()), maps.read(write_maps(tmp_path / "m.json")), "A <title>")
    assert "<title>A &lt;title&gt;</title>" in text
    assert not re.search(r"""(src|href|url|@import)\s*[=(]\s*["']?\s*(https?:|//)""", text)
    assert "https://" not in text and text.count("http://") == text.count("http://www.w3.org/2000/svg")
    assert "default-src 'none'" in text
    assert text.count("</script>") == 2  # the data and the program, and none that came with a token
    assert "@@SCRIPT@@" not in text and "@@STYLE@@" not in text


def test_the_page_has_every_head_and_its_numbers(table):
    data = page_data(table, ablation(heads_json(), clear=[POSITIONAL]))
    assert len(data["heads"]) == 96 and [len(g["rows"]) for g in data["grids"]] == [6, 6]
    head = data["heads"]["enc-self:0:1"]
    assert head["kinds"] == ["positional"] and head["short"] == ["−1"] and head["loss"] == 0.03
    assert data["heads"]["dec-enc:0:0"]["loss"] is None


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    need_chromium()
    folder = tmp_path_factory.mktemp("page")
    table = head_table.read(f"demo={write_heads_json(folder, types=('enc_self', 'dec_enc'))}")
    text = build(
        table, ablation(heads_json(), clear=[POSITIONAL]), maps.read(write_maps(folder / "maps.json"))
    )
    (folder / "report.html").write_text(text, encoding="utf-8")
    with browser(folder / "profile") as opened:
        opened.open((folder / "report.html").as_uri())
        yield opened


def test_in_a_browser_a_click_shows_the_head(page):
    assert page.count(".cell") == 96
    page.click('.cell[data-head="enc-self:0:1"]')
    assert page.text("#details h2") == "encoder self-attention, layer 0, head 1"
    assert "the loss grows when it is switched off" in page.text(".headline")
    assert "+0.0300 nats" in page.text("#intervened")
    assert page.run("return location.hash") == "#enc-self:0:1"
    page.keys('.cell[data-head="enc-self:0:1"]', "\ue014")  # arrow to the right
    assert page.text("#details h2").endswith("head 2")


def test_in_a_browser_the_map_shows_tokens_as_text_and_weights_on_hover(page):
    page.click('.cell[data-head="enc-self:0:1"]')
    assert page.count("#map rect.weight") == len(NASTY) ** 2
    page.hover('#map rect.weight[data-q="3"][data-k="4"]')
    assert page.text("#readout") == "$x$ → @@DATA@@: 0.56"
    assert page.text("#tokens .token:nth-of-type(1)") == "<b>two</b>"
    assert page.count("#map b") == 0 and page.run("return document.title") == "Attention heads of demo"
    assert page.run("return document.querySelectorAll('script').length") == 2


def test_in_a_browser_tables_sort_and_cells_change_color(page):
    page.click('th[data-column="loss"] button')
    first = page.run("return document.querySelector('#table tbody tr').dataset.head")
    assert first == "enc-self:0:1"
    page.click('th[data-column="name"] button')
    assert page.run("return document.querySelector('#table tbody tr').dataset.head") == "dec-enc:0:0"
    before = page.run("return document.querySelector('.cell[data-head=\"enc-self:5:0\"]').style.background")
    page.run(
        "const s = document.getElementById('color'); s.value = 'loss'; s.dispatchEvent(new Event('change'))"
    )
    assert (
        page.run("return document.querySelector('.cell[data-head=\"enc-self:5:0\"]').style.background")
        != before
    )
    page.click("#table tbody tr:nth-child(3)")
    assert page.count("#table tr.chosen") == 1


def test_in_a_browser_nothing_is_fetched_and_nothing_fails(page):
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.log() == []


def test_in_a_browser_a_model_without_functions_opens_on_its_most_relevant_head(tmp_path):
    need_chromium()
    table = head_table.read(f"demo={write_heads_json(tmp_path, types=('enc_self',))}")
    for record in table.records.values():
        record["functions"] = []
    table.records[Head("enc_self", 3, 4)]["relevance"] = 0.9
    (tmp_path / "report.html").write_text(build(table), encoding="utf-8")
    with browser(tmp_path / "profile") as page:
        page.open((tmp_path / "report.html").as_uri())
        assert page.text("#details h2").endswith("layer 3, head 4")
        assert page.run("return document.getElementById('color').value") == "relevance"
        assert page.text("#table tbody tr td:nth-child(2)") == "–"
        page.run(
            "const s = document.getElementById('color'); s.value = 'functions'; s.dispatchEvent(new Event('change'))"
        )
        assert "no head meets a criterion" in page.text("#legend")
