"""What the ablation table says in words, and which heads get a BLEU."""

import json

import pytest

from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.analysis.ablation.command import choose_heads
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import Head, HeadLayout

LAYOUT = HeadLayout.full(2, 2, 2, 2)


def record(kind, layer, head, difference, width=0.01):
    return {
        "kind": kind,
        "type": "enc_self",
        "layer": layer,
        "head": head,
        "loss": 1 + difference,
        "difference": difference,
        "low": difference - width,
        "high": difference + width,
    }


RECORDS = [record("without", 0, 0, 0.001), record("without", 0, 1, 0.5), record("without", 1, 0, -0.2),
           record("without", 1, 1, 0.003), record("alone", 0, 0, 0.9), record("layer", 0, None, 1.5)]  # fmt: skip


def table():
    return {
        "provenance": {"options": {"level": 0.95}},
        "baseline": {"loss": 1.0, "sentences": 10, "tokens": 100},
        "records": RECORDS,
    }


def test_the_summary_counts_what_chance_would_give_too():
    text = ablation_table.summary(table())
    assert "whole model: loss 1.0000 nats per token (10 sentences, 100 tokens)" in text
    assert (
        "one head off: of 4, 1 make the loss larger and 1 smaller (95 % interval without 0; by chance alone about 0.1 each)"
        in text
    )
    lines = text.splitlines()
    assert lines[lines.index(next(x for x in lines if x.startswith("head"))) + 1].split() == [
        "enc-self:0:1",
        "+0.5000",
        "+0.4900",
        "+0.5100",
        "-",
    ]  # the largest first
    assert "enc-self:0 " in text  # a layer


@pytest.mark.parametrize("text, heads", [
    ("all", list(LAYOUT)),
    ("2", [Head("enc_self", 0, 1), Head("enc_self", 1, 0)]),
    ("dec-enc:1:0,enc-self:0:0", [Head("enc_self", 0, 0), Head("dec_enc", 1, 0)]),
])  # fmt: skip
def test_heads_for_bleu(text, heads):
    assert choose_heads(text, LAYOUT, RECORDS[:4]) == heads


@pytest.mark.parametrize("text", ["enc-self:2:0", "enc-self:0:2", "enc-self"])
def test_heads_that_are_not_there(text):
    with pytest.raises(UserError):
        choose_heads(text, LAYOUT, RECORDS[:4])


def test_records_by_head():
    found = ablation_table.by_head(table())
    assert set(found) == {Head("enc_self", layer, head) for layer in (0, 1) for head in (0, 1)}
    assert ablation_table.by_head(None) == {}


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda data: data["records"].append({"x": 1}), "record 6 of 'records'"),
        (lambda data: data["records"][2].update(difference="x"), "record 2 of 'records'"),
        (lambda data: data["records"][0].update(type="encoder"), "record 0 of 'records'"),
        (lambda data: data.pop("provenance"), "of which options and data"),
        (lambda data: data["provenance"].pop("data"), "of which options and data"),
        (lambda data: data.update(baseline=1.0), "of which options and data"),
    ],
)
def test_a_damaged_table_is_named(tmp_path, change, words):
    data = json.loads(json.dumps(table()))
    data["provenance"]["data"] = {"subset": "valid"}
    path = tmp_path / "ablation.json"
    path.write_text(json.dumps(data))
    assert ablation_table.read(path) == data
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match=f"ablation.json.* {words}.* make the file anew"):
        ablation_table.read(path)
