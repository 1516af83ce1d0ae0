"""Every check of a GPU, run with the CPU in its place."""

from benchmarks import device_check
from benchmarks.models import SIZES

SETTING = device_check.Setting(SIZES["toy"], 40, "cpu")


def test_the_cpu_agrees_with_itself():
    results = device_check.run(SETTING)
    names = [entry["name"] for entry in results]
    assert names == [
        "training, bfloat16",
        "search, bfloat16",
        "search, float32",
        "removal",
        "relevance",
        "dumps",
    ]
    assert all(entry["good"] for entry in results), device_check.table(results)
    assert "| removal" in device_check.table(results)


def test_a_device_that_computes_otherwise_is_found(monkeypatch):
    original = device_check.removed_model
    built = []

    def one_is_wrong(setting):
        model = original(setting)
        built.append(model)
        if len(built) % 2:
            model.decoder.layers[0].fc1.weight.data.mul_(1.5)
        return model

    monkeypatch.setattr(device_check, "removed_model", one_is_wrong)
    for check in (
        device_check.check_search,
        device_check.check_removal,
        device_check.check_relevance,
        device_check.check_dumps,
    ):
        assert not check(SETTING).good
        built.clear()


def test_not_a_number_is_not_good():
    assert not device_check.Check("x", float("nan"), 1.0, "").good


def test_both_benchmarks_become_lines():
    lines = device_check.benchmarks(SETTING, repeats=1)
    names = [line["name"] for line in lines]
    assert "decoding, batch 16, pruned 14/31/30" in names and "training, gated" in names
    assert all(line["good"] for line in lines if line["what"] == "other best hypotheses")
