"""Averages of head relevance and the three forms in which they are shown."""

import numpy as np
import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.recording.relevance_table import RelevanceTable, save_json
from fairseq_headprune.units.layout import HeadLayout

LAYOUT = HeadLayout(enc_self=((0, 1, 2), ()), dec_self=((0, 2),), dec_enc=((1,),))


def relevance(steps, seed):
    rng = np.random.default_rng(seed)
    result = {}
    for key in ("enc_self", "dec_self", "dec_enc"):
        grid = rng.random((steps, len(LAYOUT[key]), 3)).astype(np.float32)
        for layer, heads in enumerate(LAYOUT[key]):
            grid[:, layer, [h for h in range(3) if h not in heads]] = 0
        result[key] = grid
    return result


def test_mean_over_steps_not_over_sentences():
    table = RelevanceTable(LAYOUT)
    sentences = [relevance(1, 0), relevance(4, 1)]
    for one in sentences:
        table.add(one)
    assert (table.sentences, table.steps) == (2, 5)
    for key, rows in table.rows().items():
        steps = np.concatenate([one[key] for one in sentences])
        expected = np.zeros(steps.shape[1:])
        for step in steps:
            for layer, row in enumerate(step):
                if row.sum():
                    expected[layer] += row / row.sum() / len(steps)
        np.testing.assert_allclose(rows, expected, rtol=1e-6)
    assert table.rows()["enc_self"].sum(1) == pytest.approx([1, 0])


def test_steps_that_are_not_finite_are_counted_and_left_out():
    good, bad = relevance(2, 0), relevance(2, 1)
    bad["dec_self"][1, 0, 0] = np.nan
    table, clean = RelevanceTable(LAYOUT), RelevanceTable(LAYOUT)
    table.add(good)
    table.add(bad)
    clean.add(good)
    clean.add({key: grid[:1] for key, grid in bad.items()})
    assert table.steps == 3 and "1 of 4 steps" in table.warning() and not clean.warning()
    for key in good:
        np.testing.assert_allclose(table.rows()[key], clean.rows()[key])
    assert table.to_dict({})["counts"]["steps_left_out"] == 1


def test_magnitudes_do_not_cancel():
    table = RelevanceTable(LAYOUT)
    one = relevance(2, 0)
    one["dec_self"][:, 0] = [[1, 0, -3], [-1, 0, 3]]
    table.add(one)
    np.testing.assert_allclose(table.rows()["dec_self"], [[0, 0, 0]])
    np.testing.assert_allclose(table.magnitudes()["dec_self"], [[0.25, 0, 0.75]])
    np.testing.assert_allclose(table.magnitudes()["enc_self"], table.rows()["enc_self"])


def test_lines_and_text_mark_heads_that_do_not_exist():
    table = RelevanceTable(LAYOUT)
    one = relevance(1, 0)
    one["dec_self"][0, 0] = [3, 0, 1]
    table.add(one)
    lines = table.lines("R-7")
    assert len(lines) == 4 and lines[2] == "R-7\tdec-self\t0\t0.7500 - 0.2500"
    assert lines[1] == "R-7\tenc-self\t1\t- - -"
    text = table.text().splitlines()
    assert text[text.index(next(x for x in text if x.startswith("dec-self"))) + 1].split() == [
        *("layer", "0", "0.750", "-", "0.250")
    ]


def test_files_appear_whole_or_not_at_all(tmp_path):
    save_json({"a": 1}, tmp_path / "a.json")
    (tmp_path / "d").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        save_json({}, tmp_path / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "d"]
