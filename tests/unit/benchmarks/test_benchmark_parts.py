"""The pure parts of the benchmarks: layouts, statistics, operations, agreement, tables."""

import itertools
import json

import pytest
import torch
from torch import nn

from benchmarks import decoding, floor, machines, models, profile, report, training
from benchmarks.models import SIZES, Size
from fairseq_headprune.base import timing as interleave
from fairseq_headprune.base.errors import UserError

TOY = SIZES["toy"]


@pytest.mark.parametrize(
    "text, size, counts",
    [
        ("14/31/30", SIZES["base"], (14, 31, 30)),
        ("48/48/48", SIZES["tiny"], (16, 16, 16)),
        ("14/31/30", SIZES["tiny"], (5, 10, 10)),
        ("0/0/1", SIZES["base"], (0, 0, 1)),
    ],
)
def test_counts_scale_with_the_size(text, size, counts):
    assert models.counts_for(text, size) == counts


@pytest.mark.parametrize("text", ["14/31", "a/b/c", "49/1/1", "-1/2/3", ""])
def test_counts_that_are_none(text):
    with pytest.raises(UserError, match="three head counts"):
        models.counts_for(text, TOY)


def test_heads_are_spread_evenly():
    layout = models.spread_evenly((14, 6, 1), SIZES["base"])
    assert [len(heads) for heads in layout.enc_self] == [3, 3, 2, 2, 2, 2]
    assert [len(heads) for heads in layout.dec_self] == [1] * 6
    assert [len(heads) for heads in layout.dec_enc] == [1, 0, 0, 0, 0, 0]


def test_sides_take_turns_and_warm_up_is_not_counted():
    calls = []
    sides = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    times = interleave.in_turns(sides, repeats=4, warmup=2)
    assert [sorted(calls[i : i + 3]) for i in range(0, 18, 3)] == [list("abc")] * 6
    assert len({tuple(calls[i : i + 3]) for i in range(0, 18, 3)}) > 1
    assert all(len(t.cpu) == len(t.wall) == 4 for t in times.values())


def test_spreads_and_ratios():
    found = interleave.spread([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (found["median"], found["q1"], found["q3"]) == (3.0, 2.0, 4.0)
    assert (found["min"], found["max"], found["n"]) == (1.0, 5.0, 5)
    # round by round: 2, 2, 4, though the quotient of medians is 20 / 8
    assert interleave.ratios([2.0, 20.0, 40.0], [1.0, 10.0, 10.0])["median"] == 2.0
    assert interleave.spread([7.0])["median"] == 7.0


def test_agreement_counts_hypotheses():
    def hypothesis(tokens, score):
        return {"tokens": torch.tensor(tokens), "score": torch.tensor(score)}

    one = [[hypothesis([4, 2], -1.0), hypothesis([5, 2], -2.0)]] * 2
    other = [one[0], [hypothesis([9, 2], -1.5), hypothesis([5, 2], -2.0)]]
    found = decoding.compare(one, other)
    assert (found["hypotheses"], found["identical"]) == (4, 3)
    assert (found["sentences"], found["identical_best"]) == (2, 1)
    assert found["largest_score_difference"] == pytest.approx(0.5)
    assert report.exit_status([{"agreement": {"gated": found}}]) == 1
    assert report.exit_status([{"agreement": {"gated": decoding.compare(one, one)}}]) == 0


def test_floor_counts_what_a_search_multiplies(monkeypatch):
    """Operations of every product, counted while a search runs with a stock model."""
    size, words, batch, source, target, beam = Size(8, 12, 2, 2), 40, 2, 5, 4, 3
    counted = []

    def count(*shapes):
        counted.append(2 * torch.Size(shapes).numel())

    linear, bmm = nn.functional.linear, torch.bmm

    def counting_linear(x, weight, bias=None):
        count(x.numel() // x.size(-1), *weight.shape)
        return linear(x, weight, bias)

    def counting_bmm(a, b):
        count(*a.shape, b.size(2))
        return bmm(a, b)

    symbols = models.dictionary(words)
    model = models.stock(size, symbols)
    for layer in itertools.chain(model.encoder.layers, model.decoder.layers):
        layer.self_attn.skip_embed_dim_check = True  # no fused attention, which hides its products
    search = decoding.searcher(model, symbols, target, beam)
    sample = decoding.sentences(batch, source, words)
    monkeypatch.setattr(nn.functional, "linear", counting_linear)
    monkeypatch.setattr(torch, "bmm", counting_bmm)
    search.generate([], sample)
    whole = models.spread_evenly((4, 4, 4), size)
    work = floor.search_work(size, words, whole, batch, source, target, beam)
    # stock projects each sentence's memory once a beam, the floor once
    again = 2 * batch * (beam - 1) * source * 2 * size.width * size.width * size.layers
    assert work.flops + again == sum(counted)


def test_bytes_of_the_floor():
    size = Size(8, 12, 2, 1)
    none = models.spread_evenly((0, 0, 0), size)
    work = floor.search_work(size, 40, none, 1, 5, 4, 3)
    assert work.encoder_bytes == 4 * 2 * 8 * 12
    assert work.decoder_bytes == 4 * 4 * (2 * 8 * 12 + 8 * 40)


def test_rates_are_positive_and_the_floor_adds_up():
    assert floor.product_rate(4, 16, 32, repeats=2, pool=1 << 16) > 0
    work = floor.Work(100, 300, 0, 0)
    assert floor.floor_seconds(work, 10.0, 30.0) == 20.0
    assert floor.compare_with_floor(work, 10.0, 30.0, 40.0)["times_floor"] == 2.0


def test_all_sides_start_from_the_same_weights_and_learn():
    sample = training.batch(3, 6, 30)
    trainers = training.sides(TOY, 30, sample, dropout=0.0)
    losses = {name: [float(trainer()) for _ in range(3)] for name, trainer in trainers.items()}
    assert losses["stock"] == pytest.approx(losses["gates off"], rel=1e-4)
    for values in losses.values():
        assert values[-1] < values[0]


def test_peak_bytes_counts_what_is_held_at_once():
    class Update:
        optimizer = torch.optim.SGD([torch.zeros(1)])

        def __call__(self):
            for _ in range(3):  # freed before the next: no more than two at once
                one = torch.ones(250_000)
                two = one + 1
                del one, two

    assert training.peak_bytes(Update()) == pytest.approx(2_000_000, rel=0.01)


def test_our_loss_never_holds_all_logits():
    """With logits by far the largest tensors, the fused update holds a fraction of stock's."""
    sample = training.batch(40, 25, 4000)
    trainers = training.sides(TOY, 4000, sample, dropout=0.0)
    peaks = {name: training.peak_bytes(trainer) for name, trainer in trainers.items()}
    logits = 4 * 1000 * 4000
    assert peaks["stock"] > 3 * logits and peaks["gated"] < peaks["stock"] - logits


def test_profile_shares():
    times = [("aten::addmm", 3.0), ("aten::bmm", 2.0), ("aten::mm", 3.0), ("aten::view", 2.0)]
    found = profile.shares(times)
    assert list(found) == ["products with weights", "products of attention", "small operators"]
    assert found["products with weights"] == pytest.approx(0.6)
    assert sum(found.values()) == pytest.approx(1.0)
    text = report.profile_table([{"batch": 1, "model": "stock", "shares": found}])
    assert "| products with weights | 60 %" in text
    measured = profile.profile(lambda: torch.ones(4, 4) @ torch.ones(4, 4), rounds=1)
    assert measured["products with weights"] > 0


def test_tables_and_files(tmp_path):
    times = interleave.summary(
        {"stock": interleave.Times([2.0], [2.0]), "gated": interleave.Times([1.0], [1.0])}, "stock"
    )
    text = report.training_table([{"times": times}])
    assert "| gated" in text and "0.500" in text and "peak" not in text
    peaks = {"stock": 4_000_000, "gated": 1_000_000}
    text = report.training_table([{"times": times, "peak_bytes": peaks}])
    assert text.splitlines()[-1].split("|")[-3:-1] == [" 1                    ", " 0.25         "]
    report.write_json(tmp_path / "x.json", {"a": 1})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def decoded(gated=1.0, pruned=0.5, **more):
    """A file of bench_decoding.py, seconds of one round."""
    seconds = {"stock": [2.0], "gated": [gated], "pruned 14/31/30": [pruned]}
    times = {name: interleave.Times(s, s) for name, s in seconds.items()}
    entry = {"batch": 16, "agreement": {}, "times": interleave.summary(times, "stock"), **more}
    return {"program": "decoding", "conditions": {"processor": "One"}, "results": [entry]}


def test_speed_of_removal_is_told_from_that_of_the_program():
    lines = report.decoding_table(decoded()["results"]).splitlines()
    assert [c.strip() for c in lines[2].split("|")[1:4]] == ["16", "stock", ""]
    assert [c.strip() for c in lines[4].split("|")[1:4]] == ["16", "pruned 14/31/30", "2.00"]
    taken = {
        "pruned 14/31/30": {"median": 1.9, "q1": 1.8, "q3": 2.1},
        "gated": {"median": 1, "q1": 1, "q3": 1},
    }
    lines = report.decoding_table(decoded(same_program=taken)["results"]).splitlines()
    assert "1.90 [1.80, 2.10]" in lines[4]


def test_a_table_of_several_machines(tmp_path):
    (tmp_path / "two").mkdir()
    other = decoded(gated=1.6, pruned=0.8)
    other["conditions"]["processor"] = "Two"
    report.write_json(tmp_path / "d.json", decoded())
    report.write_json(tmp_path / "two" / "d.json", other)
    header, _, gated, pruned = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in machines.table(tmp_path / "d.json").splitlines()
    )
    assert header[2:] == ["same program, One", "same program, Two", "over stock, One", "over stock, Two"]
    assert gated[2:4] == ["1.00", "1.00"]
    assert pruned[2:] == ["2.00", "2.00", "4.00 [4.00, 4.00]", "2.50 [2.50, 2.50]"]
