"""Figures, read back from what was drawn."""

import json
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from fairseq_headprune.analysis import head_table, maps  # noqa: E402
from fairseq_headprune.analysis.figures import (  # noqa: E402  # noqa: E402
    command,
    fig03_relative_positions,
    fig06_hard_concrete,
    fig07_bleu_encoder_heads,
    fig11_ablation,
    inputs,
    style,
)
from fairseq_headprune.analysis.roles.heads import Function  # noqa: E402
from fairseq_headprune.units import gates  # noqa: E402
from tests.helpers.analysis_tables import ablation, sweep, write_maps, write_points  # noqa: E402
from tests.helpers.heads_json import heads_json, write_heads_json  # noqa: E402


@pytest.fixture(autouse=True)
def settings():
    with style.applied():
        yield
    pyplot.close("all")


@pytest.fixture
def given(tmp_path):
    tables = [head_table.read(f"m{i}={write_heads_json(tmp_path / str(i), seed=i)}") for i in (1, 2, 3)]
    points = inputs.read_points(write_points(tmp_path / "points", sweep()))
    return inputs.Inputs(
        tables, points, maps.read(write_maps(tmp_path / "maps.json")), ablation(heads_json(seed=1))
    )


def texts(axes):
    return [t.get_text() for t in axes.texts]


def marked(axes, gid):
    return [p for p in axes.patches if p.get_gid() == gid]


def test_every_figure_of_the_paper_has_a_file_and_a_caption():
    names = command.names()
    for number in range(1, 11):
        assert any(n.startswith(f"fig{number:02d}_") for n in names)
    assert {"table01", "table02"} <= {n.split("_")[0] for n in names}
    assert all(len(command.caption(name)) > 20 for name in names)


def test_a_name_is_no_formula(tmp_path):
    tables = [head_table.read(f"a$b^{i}$={write_heads_json(tmp_path / str(i), seed=i)}") for i in (1, 2)]
    given = inputs.Inputs(tables, None, None, None)
    with style.applied():
        for name in ("fig02_other_models", "fig04_dependency_scores"):
            for figure in command.draw(name, given).values():
                figure.savefig(tmp_path / "x.png")
                written = [t.get_text() for t in figure.findobj(Text)]
                assert any("a$b^2$" in text for text in written)
    assert command.save({"x": figure}, tmp_path / "out") == ["x.png", "x.pdf"]


def test_heat_maps_have_a_cell_a_head_sorted_by_relevance(given):
    drawn = command.draw("fig01_heads", given)
    assert sorted(drawn) == ["fig01a_heads", "fig01b_heads", "fig01c_heads"]
    axes = drawn["fig01a_heads"].axes[0]
    cells = marked(axes, "cell")
    assert len(cells) == 48
    bottom = [c for c in cells if c.get_y() == 0]
    depths = [sum(c.get_facecolor()[:3]) for c in sorted(bottom, key=lambda c: c.get_x())]
    assert depths == sorted(depths)  # light means little, and the most relevant head comes first
    numbers = texts(axes)
    table = given.tables[0]
    most = table.sorted_layer("enc_self", 0)[0]
    assert numbers[0] == str(most.head)
    assert numbers[1] == f"{table.records[most]['relevance']:.2f}".replace("0.", ".", 1)


@pytest.mark.parametrize(
    "known, order", [(True, "heads, most relevant of each layer first"), (False, "heads by number")]
)
def test_the_grid_of_functions_says_how_it_is_sorted(known, order, given):
    if not known:
        for record in given.tables[0].records.values():
            record["relevance"] = None
    assert command.draw("fig01_heads", given)["fig01c_heads"].axes[0].get_xlabel() == order


def test_functions_show_color_hatch_and_words(given):
    axes = command.draw("fig01_heads", given)["fig01c_heads"].axes[0]
    colors = [matplotlib.colors.to_hex(p.get_facecolor()) for p in marked(axes, "stripe")]
    assert sorted(colors) == sorted(
        [style.FUNCTIONS["rare"].color]
        + 2 * [style.FUNCTIONS["positional"].color]
        + 3 * [style.FUNCTIONS["syntactic"].color]
    )
    shown = texts(axes)
    for text in ("−1", "+1", "v→s", "o→v", "adj→n", "rare"):
        assert text in shown
    legend = [t.get_text() for t in axes.get_legend().get_texts()]
    assert legend == ["positional", "syntactic", "rare words", "no function found"]
    hatches = {p.get_facecolor(): p.get_hatch() for p in marked(axes, "stripe")}
    assert len(set(hatches.values())) == 3


def test_a_head_with_several_functions_is_striped(tmp_path):
    data = heads_json()
    data["heads"][0]["functions"] = ["positional -1", "syntactic nsubj h->d", "syntactic obj d->h"]
    path = tmp_path / "heads.json"
    path.write_text(json.dumps(data))
    axes = command.draw("fig01_heads", inputs.Inputs([head_table.read(str(path))]))["fig01c_heads"].axes[0]
    assert "v→s +1" in texts(axes)


def test_removed_heads_and_empty_layers_leave_gaps(tmp_path):
    removed = [("enc_self", 2, h) for h in range(8)] + [("enc_self", 0, 3)]
    table = head_table.read(str(write_heads_json(tmp_path, removed=removed, functions={})))
    axes = command.draw("fig01_heads", inputs.Inputs([table]))["fig01a_heads"].axes[0]
    assert len(marked(axes, "cell")) == 39
    assert [t.get_text() for t in axes.get_yticklabels()] == list("012345")


def test_no_relevance_leaves_figure_1a_out_and_sorts_by_the_value(tmp_path):
    data = heads_json()
    for record in data["heads"]:
        record["relevance"] = None
    (tmp_path / "heads.json").write_text(json.dumps(data))
    drawn = command.draw("fig01_heads", inputs.Inputs([head_table.read(str(tmp_path / "heads.json"))]))
    assert sorted(drawn) == ["fig01b_heads", "fig01c_heads"]
    axes = drawn["fig01b_heads"].axes[0]
    first_row = [float(t) for t in texts(axes)[1:16:2]]
    assert first_row == sorted(first_row, reverse=True)


def test_figure_2_has_two_pictures_for_each_further_model(given):
    drawn = command.draw("fig02_other_models", given)
    assert [name[:6] for name in drawn] == ["fig02a", "fig02b", "fig02c", "fig02d"]
    assert drawn["fig02d_other_models"].axes[0].get_title() == "Functions, m3"


def test_figure_3_bars_add_up_and_far_positions_are_added_to_the_ends():
    shares = fig03_relative_positions.shares({"-9": 1, "-6": 1, "1": 2, "40": 4}, reach=6)
    assert shares[-6] == 0.25 and shares[1] == 0.25 and shares[6] == 0.5
    assert sum(shares.values()) == 1 and 0 not in shares


def test_figure_3_draws_the_relations_of_the_table(given):
    figure = command.draw("fig03_relative_positions", given)["fig03_relative_positions"]
    assert [a.get_title().split()[0] for a in figure.axes] == ["nsubj", "obj", "amod", "advmod"]
    heights = {round(p.get_x() + p.get_width() / 2): p.get_height() for p in figure.axes[2].patches}
    assert max(heights, key=heights.get) == -1  # where the synthetic table puts the adjective


def test_figure_4_shows_the_best_head_of_every_model(given):
    axes = command.draw("fig04_dependency_scores", given)["fig04_dependency_scores"].axes[0]
    assert len(axes.get_xticks()) == 8
    bars = [p for p in axes.patches if p.get_height() > 0]
    assert len(bars) == 8 * 3
    head, measured = given.tables[0].best("nsubj", "h->d")
    assert bars[0].get_height() == measured["accuracy"]
    assert texts(axes)[0] == f"{head.layer}:{head.head}"


def test_figure_5_shows_the_marked_heads_with_their_tokens(given):
    figure = command.draw("fig05_attention_maps", given)["fig05_attention_maps"]
    panels = [a for a in figure.axes if a.get_visible()]
    assert [a.get_title() for a in panels] == ["enc-self layer 0 head 0"] * 2
    labels = [t.get_text() for t in panels[0].get_yticklabels()]
    assert labels[:2] == ["<b>two</b>", "&amp;"] and labels[2].endswith("…") and labels[3] == "$x$"
    framed = [(round(p.get_x() + 0.5), round(p.get_y() + 0.5)) for p in panels[0].patches]
    assert framed == [(q, q) for q in range(8)]


@pytest.mark.parametrize("log_a, zero, one", [(0, 0.23, 0.23), (2, 0.04, 0.69), (-3, 0.86, 0.01)])
def test_figure_6_has_the_probabilities_of_the_paper(log_a, zero, one):
    found = fig06_hard_concrete.ends(log_a)
    assert (round(found[0], 2), round(found[1], 2)) == (zero, one)


def test_the_density_of_figure_6_is_that_of_the_gates_we_sample():
    import torch

    log_a = torch.full((200_000,), 0.7)
    u = torch.rand(200_000, generator=torch.Generator().manual_seed(1)).clamp(1e-6, 1 - 1e-6)
    g = gates.sample(log_a, u, temperature=0.5, stretch=(-0.1, 1.1)).numpy()
    zero, one = fig06_hard_concrete.ends(0.7)
    assert abs((g == 0).mean() - zero) < 0.005 and abs((g == 1).mean() - one) < 0.005
    counts, edges = np.histogram(g[(g > 0) & (g < 1)], bins=20, range=(0, 1))
    middle = (edges[1:] + edges[:-1]) / 2
    np.testing.assert_allclose(counts / len(g) * 20, fig06_hard_concrete.density(middle, 0.7), rtol=0.1)


def test_figure_7_separates_models_that_were_scored_on_fewer_sentences(given):
    figure = command.draw("fig07_bleu_encoder_heads", given)["fig07_bleu_encoder_heads"]
    together, alone = figure.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in together.lines}
    assert lines["gates (L0)"] == [[17, 38.9], [4, 38.1]]
    assert not any("gradient" in name for name in lines)
    assert any(name == "whole model, trained on (enc-control): 39.00" for name in lines)
    assert together.get_xlim()[0] > together.get_xlim()[1]
    lines = {line.get_label(): line.get_xydata().tolist() for line in alone.lines}
    assert lines["gradient, one shot"] == [[17, 38.5]] and alone.get_title() == "a alone"


def test_figure_7_draws_a_line_a_recipe(tmp_path):
    records = sweep()
    for record in records:
        record["budget"] = {"lr": 0.0002 if record["name"] == "enc-l2" else 0.0007}
    points = inputs.read_points(write_points(tmp_path, records))
    found = fig07_bleu_encoder_heads.series(inputs.Inputs(points=points).sweep("enc"))
    assert [len(found[f"gates (L0), learning rate {lr}"]) for lr in (0.0002, 0.0007)] == [1, 1]
    for record in records:
        record.update(budget={"lr": 0.0007}, updates_in_all=1200 if record["name"] == "enc-l2" else 400)
    points = inputs.read_points(write_points(tmp_path, records))
    found = fig07_bleu_encoder_heads.series(inputs.Inputs(points=points).sweep("enc"))
    assert [len(found[f"gates (L0), {n} updates"]) for n in ("400", "1,200")] == [1, 1]


def test_figure_7_tells_every_series_from_the_others():
    ways = [
        "gates (L0)",
        "gradient",
        "random",
        "lrp-epsilon",
        "lrp-z-plus",
        "lrp-alpha-beta",
        "confidence",
        "same heads",
    ]
    names = [f"{way}, {recipe}" for way in ways for recipe in ("fine-tuned", "one shot")] + [
        "gates (L0), 9 updates"
    ]
    found = fig07_bleu_encoder_heads.looks(names, ways)
    assert len({(k["color"], k["fillstyle"], k["linestyle"]) for k in found.values()}) == len(names)
    assert len({(k["marker"], k["fillstyle"]) for k in found.values()}) == len(names)
    assert {n for n, k in found.items() if k["fillstyle"] == "none"} == {n for n in names if "one shot" in n}
    alone = fig07_bleu_encoder_heads.looks(["random, one shot"], ways)
    assert alone["random, one shot"] == found["random, one shot"]  # the same in every panel


def test_figure_7_draws_lines_through_the_means_of_equal_counts(tmp_path):
    records = [
        *sweep(),
        {
            **sweep()[3],
            "name": "enc-l1-seed2",
            "scores": {"together": {"bleu": 36.9}, "a": {"bleu": 1}, "b": {"bleu": 1}},
        },
    ]
    points = inputs.read_points(write_points(tmp_path, records))
    figure = command.draw("fig07_bleu_encoder_heads", inputs.Inputs(points=points))[
        "fig07_bleu_encoder_heads"
    ]
    drawn = [line.get_xydata().round(6).tolist() for line in figure.axes[0].lines]
    assert [[17, 36.9], [17, 38.9], [4, 38.1]] in drawn and [[17, 37.9], [4, 38.1]] in drawn


def test_figure_8_names_models_that_have_equally_many_heads(tmp_path):
    records = [r for r in sweep() if r["name"] in ("baseline", "enc-l1", "enc-l2")]
    records.append({**records[-1], "name": "enc-l2-seed2"})
    points = inputs.read_points(write_points(tmp_path, records))
    axes = command.draw("fig08_retained_functions", inputs.Inputs(points=points))[
        "fig08_retained_functions"
    ].axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["17\nenc-l1", "4\nenc-l2", "4\nenc-l2-seed2"]


def test_figure_8_orders_heads_by_function_and_counts_several(given):
    axes = command.draw("fig08_retained_functions", given)["fig08_retained_functions"].axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["17", "4"]
    stripes = [p for p in marked(axes, "stripe") if p.get_x() < 1]
    assert len(stripes) == 17 + 1  # one head has two kinds
    by_row = {}
    for p in stripes:
        by_row.setdefault(round(p.get_y()), []).append(matplotlib.colors.to_hex(p.get_facecolor()))
    purple, green, orange = (style.FUNCTIONS[k].color for k in ("positional", "syntactic", "rare"))
    assert by_row[0] == [purple, green] and by_row[1] == [purple]
    assert by_row[2] == [green] and by_row[3] == [orange] and by_row[4] == [style.NONE.color]
    assert texts(axes)[:4] == ["2", "−1", "2", "rare"]


def test_figures_9_and_10_count_heads_by_what_was_pruned(given):
    axes = command.draw("fig09_heads_by_type", given)["fig09_heads_by_type"].axes[0]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["encoder self-attention"] == [[0, 48], [69, 14], [118, 5]]
    assert lines["decoder-encoder attention"] == [[0, 48], [69, 30], [118, 12]]
    figure = command.draw("fig10_decoder_layers", given)["fig10_decoder_layers"]
    for axes, total in zip(figure.axes, (31, 30)):
        at = [line.get_ydata()[1] for line in axes.lines]
        assert len(at) == 3 and sum(at) == total


def test_figures_9_and_10_and_table_2_leave_out_what_the_model_has_none_of(given):
    for point in given.points:
        object.__setattr__(point, "layout", replace(point.layout, dec_self=()))
    axes = command.draw("fig09_heads_by_type", given)["fig09_heads_by_type"].axes[0]
    assert len(axes.lines) == 2
    assert len(command.draw("fig10_decoder_layers", given)["fig10_decoder_layers"].axes) == 1
    assert "dec-self" not in command.draw("table02_all_types", given)["table02_all_types"]


@pytest.mark.parametrize("layers, pairs", [(6, [(0, 1), (2, 3), (4, 5)]), (3, [(0, 1), (2,)]), (0, [])])
def test_pairs_of_layers(layers, pairs):
    assert inputs.pairs_of_layers(layers) == pairs


def test_figure_11_sets_what_was_done_beside_what_was_seen(given):
    axes = command.draw("fig11_ablation", given)["fig11_ablation"].axes[0]
    points = sum(
        len(c.get_offsets())
        for c in axes.collections
        if hasattr(c, "get_offsets") and c.get_label()[0] != "_"
    )
    assert points == 48


def test_labels_of_figure_11_do_not_lie_on_each_other():
    def row(name, x, y):
        return (name, x, {"difference": y}, None)

    found = [row("low", 0.1, 0.0), row("a", 0.150, 0.0040), row("b", 0.151, 0.0039), row("far", 0.3, 0.04)]
    assert [r[0] for r in fig11_ablation.labelled(found)] == ["far", "a", "low"]
    assert [r[0] for r in fig11_ablation.labelled(found, most=1)] == ["far"]
    assert len(fig11_ablation.labelled([row("a", 1, 1)])) == 1


def test_the_rank_correlation_is_that_of_ranks():
    def row(x, y):
        return (None, x, {"difference": y}, None)

    assert fig11_ablation.rank_correlation([row(1, 10), row(2, 20), row(3, 1000)]) == "1.00"
    assert fig11_ablation.rank_correlation([row(1, 3), row(2, 2), row(3, 1)]) == "−1.00"
    assert fig11_ablation.rank_correlation([row(1, 5), row(2, 5)]) == "undefined"


def test_table_1_names_the_best_head_and_table_2_the_model_from_scratch(given):
    one = command.draw("table01_dependency_scores", given)["table01_dependency_scores"]
    head, m = given.tables[0].best("obj", "d->h")
    line = next(row for row in one.splitlines() if row.startswith("| obj | o→v"))
    assert f"{head.layer}:{head.head}" in line and f"{100 * m['accuracy']:.1f}" in line
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    gain = f"{100 * m['gain']:+.1f} [{100 * m['gain_low']:+.1f}, {100 * m['gain_high']:+.1f}]"
    everywhere = f"{100 * m['accuracy']:.0f}"
    assert cells[7:11] == [
        gain, f"{m['gain_p_holm']:.2g}", f"{100 * m['away']:.1f}", " / ".join([everywhere] * 4 + ["–"])
    ]  # fmt: skip
    two = command.draw("table02_all_types", given)["table02_all_types"]
    cells = [c.strip() for c in next(r for r in two.splitlines() if "all-l1" in r).strip("|").split("|")]
    assert cells[1:6] == ["14", "31", "30", "75", "38.70"] and cells[-1] == "36.50"
    assert cells[6] == "-0.30 (-0.70 … +0.10)" and cells[7] == ""


def test_what_is_missing_is_named(tmp_path):
    empty = inputs.Inputs()
    for name in command.names():
        if name != "fig06_hard_concrete":
            with pytest.raises(inputs.Missing):
                command.draw(name, empty)


def test_a_new_figure_is_one_new_file(given, monkeypatch):
    import sys
    import types

    module = types.ModuleType(
        "fairseq_headprune.analysis.figures.fig99_new", "A new one: how many heads there are.\n\nMore."
    )
    module.draw = lambda inputs: f"{len(inputs.main().records)} heads\n"
    monkeypatch.setitem(sys.modules, "fairseq_headprune.analysis.figures.fig99_new", module)
    assert command.draw("fig99_new", given) == {"fig99_new": "48 heads\n"}
    assert command.caption("fig99_new") == "A new one: how many heads there are."


# -- legible for everybody ---------------------------------------------------------------

# Machado et al. 2009, severity 1.0, on linear RGB
DEFICIENCIES = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "none": np.eye(3).tolist(),
}


def linear(color):
    rgb = np.array(matplotlib.colors.to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(rgb):
    return float(np.clip(rgb, 0, 1) @ [0.2126, 0.7152, 0.0722])


def contrast(one, two):
    high, low = max(one, two), min(one, two)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", DEFICIENCIES)
def test_colors_of_functions_differ_in_lightness_for_every_eye_and_in_print(name):
    seen = [
        luminance(np.array(DEFICIENCIES[name]) @ linear(k.color))
        for k in [*style.FUNCTIONS.values(), style.NONE]
    ]
    for i, one in enumerate(seen):
        for two in seen[i + 1 :]:
            assert contrast(one, two) > 1.3


def test_words_on_colors_can_be_read():
    for look in style.FUNCTIONS.values():
        assert contrast(luminance(linear(look.color)), luminance(linear(look.text))) > 4.5


@pytest.mark.parametrize("text, shown", [
    ("positional -1", "−1"), ("positional +2", "+2"), ("syntactic nsubj h->d", "v→s"), ("syntactic nsubj d->h", "s→v"),
    ("syntactic obj d->h", "o→v"), ("syntactic amod h->d", "n→adj"), ("syntactic det h->d", "det→"), ("rare words", "rare"),
])  # fmt: skip
def test_function_text(text, shown):
    assert style.function_text(Function.parse(text)) == shown
