"""What a device answers, beside what the CPU answers: training, search, removal, relevance, dumps.

Every check builds the same model twice, runs it on the device and on the CPU, and returns how far
apart they are. With ``device="cpu"`` all of it runs without an accelerator, which is how it is
tested.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from benchmarks import decoding, models, report, training
from benchmarks.models import Size
from fairseq_headprune import lrp
from fairseq_headprune.nn.projections import attention_modules, open_layout
from fairseq_headprune.recording import generator
from fairseq_headprune.units.gates import fixed_noise
from fairseq_headprune.units.layout import ATTENTION_TYPES


class Check(NamedTuple):
    """One line of the table: ``difference`` (or a ratio) must be finite and at most ``allowed``."""

    name: str
    difference: float
    allowed: float
    what: str

    @property
    def good(self) -> bool:
        return self.difference <= self.allowed  # false for NaN


class Setting(NamedTuple):
    """Models and data that all checks share."""

    size: Size
    words: int
    device: str
    half_of_the_heads: str = "24/24/24"


def gated_model(setting: Setting) -> nn.Module:
    """A gated model on the CPU with decisive weights, half of whose gates are closed."""
    symbols = models.dictionary(setting.words)
    base = models.stock(setting.size, symbols)
    base.load_state_dict(models.decisive_weights(base))
    model = models.ours(setting.size, symbols)
    models.take_heads(model, base)
    counts = models.counts_for(setting.half_of_the_heads, setting.size)
    layout = models.spread_evenly(counts, setting.size)
    for key, modules in attention_modules(model).items():
        for layer, module in enumerate(modules):
            values = [3.0 if h in layout[key][layer] else -3.0 for h in module.heads]
            module.gates.scaled_log_a.data = torch.tensor(values) / module.gates.lr_scale
    return model.eval()


def removed_model(setting: Setting) -> nn.Module:
    """The same without the heads whose gates are closed."""
    gated = gated_model(setting)
    symbols = models.dictionary(setting.words)
    base = models.stock(setting.size, symbols)
    base.load_state_dict(models.decisive_weights(base))
    model = models.ours(setting.size, symbols, "none", open_layout(gated))
    models.take_heads(model, base)
    return model.eval()


# -- the checks -----------------------------------------------------------------------


def check_training(setting: Setting, dtype: torch.dtype, updates: int = 3) -> Check:
    """Losses of some updates with gates in ``dtype`` on the device, and in float32 on the CPU."""

    def losses(device, kind):
        model = gated_model(setting)
        symbols = models.dictionary(setting.words)
        sample = training.moved(training.batch(4, 10, setting.words), device)
        trainer = training.Trainer(model.to(device), symbols, sample, gates=True)
        found = []
        for number in range(updates):
            with fixed_noise(list(model.modules()), number):
                with torch.autocast(device.split(":")[0], kind, enabled=kind != torch.float32):
                    found.append(float(trainer()))
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if not all(bool(torch.isfinite(g).all()) for g in gradients):
            return [float("nan")] * updates
        return found

    ours, exact = losses(setting.device, dtype), losses("cpu", torch.float32)
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, exact))
    name = str(dtype).replace("torch.", "")
    return Check(f"training, {name}", worst, 0.05, "loss, relative to float32")


def check_half_search(setting: Setting, dtype: torch.dtype) -> Check:
    """Scores of the best hypotheses with all weights in ``dtype``."""
    name = str(dtype).replace("torch.", "")
    ours = _search(removed_model(setting).to(dtype), setting, setting.device)
    exact = _search(removed_model(setting), setting, "cpu")
    worst = max(abs(float(a[0]["score"]) - float(b[0]["score"])) for a, b in zip(ours, exact))
    return Check(f"search, {name}", worst, 0.1, "score of the best hypothesis")


def _search(model: nn.Module, setting: Setting, device: str, length: int = 12):
    symbols = models.dictionary(setting.words)
    sample = decoding.sentences(4, 10, setting.words)
    sample["net_input"] = {k: v.to(device) for k, v in sample["net_input"].items()}
    return decoding.searcher(model.to(device), symbols, length).generate([], sample)


def check_search(setting: Setting) -> Check:
    """Hypotheses of the removed model on the device and on the CPU that differ."""
    ours = _search(removed_model(setting), setting, setting.device)
    found = decoding.compare(ours, _search(removed_model(setting), setting, "cpu"))
    return Check("search, float32", found["hypotheses"] - found["identical"], 0, "other hypotheses")


def check_removal(setting: Setting) -> Check:
    """Hypotheses that change on the device when closed heads are removed."""
    ours = _search(removed_model(setting), setting, setting.device)
    found = decoding.compare(ours, _search(gated_model(setting), setting, setting.device))
    return Check("removal", found["hypotheses"] - found["identical"], 0, "other hypotheses")


def _pairs(setting: Setting, device: str):
    sample = training.moved(training.batch(3, 8, setting.words), device)
    sources = list(sample["net_input"]["src_tokens"])
    return generator.pairs(sources, list(sample["target"]), pad=1, eos=2)


def check_relevance(setting: Setting) -> Check:
    """Relevance of heads by the paper's rule."""

    def relevance(device):
        batch = _pairs(setting, device)
        model = removed_model(setting).to(device)
        found = lrp.head_relevance(model, batch.src_tokens, batch.src_lengths, batch.prev_output_tokens)
        return [found[t].double().cpu() for t in ATTENTION_TYPES]

    both = zip(relevance(setting.device), relevance("cpu"))
    worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in both)
    return Check("relevance", worst, 1e-4, "relative to the largest")


def check_dumps(setting: Setting) -> Check:
    """Attention maps as dumps hold them."""

    def maps(device):
        model = removed_model(setting).to(device)
        return generator.head_attention(model, _pairs(setting, device), ATTENTION_TYPES)

    worst = 0.0
    for ours, exact in zip(maps(setting.device), maps("cpu")):
        for key in ATTENTION_TYPES:
            difference = abs(ours[key].astype("float32") - exact[key].astype("float32"))
            worst = max(worst, float(difference.max()))
    return Check("dumps", worst, 2e-3, "attention weight")


def checks(setting: Setting) -> list[Callable[[], Check]]:
    """All of them, quick ones first."""
    halves = [torch.bfloat16]
    if setting.device.startswith("cuda"):
        halves.insert(0, torch.float16)
    found: list[Callable[[], Check]] = []
    found += [lambda kind=kind: check_training(setting, kind) for kind in halves]
    found += [lambda kind=kind: check_half_search(setting, kind) for kind in halves]
    found += [
        lambda: check_search(setting),
        lambda: check_removal(setting),
        lambda: check_relevance(setting),
        lambda: check_dumps(setting),
    ]
    return found


def run(setting: Setting, progress: Callable[[str], None] = lambda text: None) -> list[dict]:
    """Results of all checks, in order."""
    results = []
    for check in checks(setting):
        start = time.perf_counter()
        found = check()
        seconds = time.perf_counter() - start
        progress(f"{found.name}: {found.difference:.2g} ({'good' if found.good else 'BAD'})")
        results.append({**found._asdict(), "good": found.good, "seconds": seconds})
    return results


def benchmarks(
    setting: Setting, repeats: int, progress: Callable[[str], None] = lambda text: None
) -> list[dict]:
    """Both benchmarks as lines of the same table: wall time over stock's."""
    layouts = ["48/48/48", "14/31/30", "8/13/15"]
    results = []
    for entry in decoding.run(
        setting.size, setting.words, layouts, repeats=repeats, device=setting.device, progress=progress
    ):
        for name, found in entry["agreement"].items():
            other = found["sentences"] - found["identical_best"]
            results.append(_line(f"batch {entry['batch']}, {name}", other, 0, "other best hypotheses"))
        results += _times(f"decoding, batch {entry['batch']}", entry["times"], 1.0)
    for entry in training.run(
        setting.size, setting.words, repeats=repeats, device=setting.device, progress=progress
    ):
        results += _times("training", entry["times"], 1.05)
    return results


def _times(title: str, times: dict, allowed: float) -> list[dict]:
    lines = []
    for name, found in times.items():
        if name != "stock":
            ratio = 1 / found["wall_speedup"]["median"]
            line = _line(f"{title}, {name}", ratio, allowed, "wall time / stock's")
            lines.append({**line, "seconds": found["wall"]["median"]})
    return lines


def _line(name: str, difference: float, allowed: float, what: str) -> dict:
    check = Check(name, difference, allowed, what)
    return {**check._asdict(), "good": check.good, "seconds": 0.0}


def table(results: list[dict]) -> str:
    """Markdown."""
    rows = [
        [
            entry["name"],
            f"{entry['difference']:.2g}",
            f"{entry['allowed']:g}",
            entry["what"],
            "good" if entry["good"] else "BAD",
            f"{entry['seconds']:.2f}",
        ]
        for entry in results
    ]
    return report.markdown(["check", "difference", "allowed", "of", "result", "seconds"], rows)
