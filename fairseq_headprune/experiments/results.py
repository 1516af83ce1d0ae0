"""The JSON record of one point: what Figures 7 to 10 and the tables are made from.

Documented in analysis/results/README.md.
"""

import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_headprune.base.steps import read_json
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.dump import file_sha256
from fairseq_headprune.experiments import pareto
from fairseq_headprune.experiments.points import Point
from fairseq_headprune.selection import gate_table
from fairseq_headprune.selection.scores import sentences_for
from fairseq_headprune.translation import scoring
from fairseq_headprune.units.layout import HeadLayout

FORMAT = 1


def valid_loss(log: str) -> dict[str, float] | None:
    """``loss`` and ``nll_loss`` (label-smoothed and plain, bits per token) of the last validation in
    a log of fairseq-train or -validate with --log-format json; None without one."""
    found = None
    for match in re.finditer(r"\| valid \| (\{.*\})", log):
        values = json.loads(match[1])
        loss, nll = values.get("valid_loss"), values.get("valid_nll_loss")
        if loss is not None:
            # cross_entropy without label smoothing reports one loss, which is the plain one
            found = {"loss": float(loss), "nll_loss": float(loss if nll is None else nll)}
    return found


def gate_facts(folder: Path) -> dict[str, Any] | None:
    """Counts of gates (acting, open, closed, undecided) per type in a stage's last checkpoint."""
    path = folder / "checkpoint_last.pt"
    if not path.exists():
        return None
    state = checkpoints.load_checkpoint(path)
    return gate_table.as_json(state)["counts"] or None


def identity(path: str) -> dict[str, str]:
    """Which file it was, as heads.json and dumps have it; folders are nobody's business."""
    return {"file": os.path.basename(path), "sha256": file_sha256(path)}


def updates_spent(point: Point, out: Path) -> int:
    """Updates since the baseline, those of the point it continues included."""
    earlier = 0
    if point.method == "keep":
        earlier = read_json(out / point.source / "steps" / "point.json")["what"]["updates"]
    return earlier + point.total_updates


def make_result(
    point: Point,
    layout: HeadLayout,
    translated: Mapping[str, Mapping[str, Any]],
    loss: Mapping[str, float] | None,
    model: str,
    baseline: str,
    seconds: Mapping[str, float],
    budget: Mapping[str, Any],
    gates: Mapping[str, Any] | None,
    updates: int,
    threads: int,
) -> dict[str, Any]:
    """The record, from what the steps left behind."""
    together = {
        k: [x for t in translated.values() for x in t[k]]
        for k in ("hypotheses", "references", "source_lengths")
    }
    scores = {n: scoring.score(t["hypotheses"], t["references"]) for n, t in translated.items()}
    scores["together"] = scoring.score(together["hypotheses"], together["references"])
    state = checkpoints.load_checkpoint(model)
    return {
        "format": FORMAT,
        **point.to_dict(),
        "sentences": sentences_for(point.criterion, point.sentences) or None,
        "updates_in_all": updates,
        "heads": layout.counts(),
        "heads_in_all": len(layout),
        "layout": layout.to_dict(),
        "gates": gates,
        "valid": loss,
        "scores": scores,
        "by_source_length": scoring.by_length(
            together["hypotheses"], together["references"], together["source_lengths"]
        ),
        "parameters": removal.parameter_count(removal.without_gates(state["model"])),
        "bytes": os.path.getsize(model),
        "model": identity(model),
        "baseline": identity(baseline),
        "seconds": dict(seconds),
        "budget": {k: v for k, v in budget.items() if v not in ((), [])},
        "machine": {"cpus": os.cpu_count(), "threads": threads, "processor": platform.machine()},
        "versions": versions(),
        "elsewhere": {},
        "compared": {},
        "functions": None,
    }


def versions() -> dict[str, str]:
    """Versions of what made the numbers."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in ("torch", "ve-fairseq", "fairseq", "numpy", "sacrebleu", "sacremoses"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            pass
    return found


def one_line(result: Mapping[str, Any]) -> str:
    """A result for people who wait."""
    heads = "/".join(map(str, pareto.heads(result).values()))
    scores = " ".join(f"{n} {s['bleu']:.2f}" for n, s in result["scores"].items())
    loss = f", loss {result['valid']['loss']:.3f}" if result["valid"] else ""
    return f"heads {heads}, BLEU {scores}{loss}, {result['parameters']:,} parameters"
