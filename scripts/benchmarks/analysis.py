"""The benchmark of `roles`: a whole pass against reading the dump with one argmax a row.

Each run is a process of its own, so that peak memory is that of one side and nothing is warm but
the file cache, which is so for both.
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import synthetic
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.timing import conditions
from fairseq_headprune.dump import estimate_bytes, human_size, open_dump
from fairseq_headprune.units.layout import HeadLayout

LIMIT = 1.5
"""What the analysis may take, times reading and one argmax."""
MEMORY = 1.5e9
"""Bytes it may need."""


class Bench(NamedTuple):
    """What is measured."""

    sentences: int
    tokens: int
    layers: int
    heads: int
    repeats: int


def read_with_argmax(made: synthetic.Synthetic, fast: bool = False) -> None:
    """The yardstick: every sentence's encoder self-attention, the largest weight of every row.

    ``fast`` compares the bits of the halves as whole numbers, which numpy does faster.
    """
    for record in open_dump(made.dump):
        weights = record.heads_attention("enc_self")
        (weights.view("uint16") if fast else weights).argmax(-1)


def analyse(made: synthetic.Synthetic) -> None:
    """What ``headprune roles`` does, parses and frequencies read, files written."""
    from fairseq_headprune.commands import main

    with tempfile.TemporaryDirectory(dir=made.dump.parent) as out:
        arguments = [
            "--conllu",
            made.trees,
            "--frequencies",
            made.frequencies,
            "--out",
            out,
            "--quiet",
        ]
        sys.stdout, kept = open(os.devnull, "w"), sys.stdout
        try:
            main(["roles", *map(str, [made.dump, *arguments])])
        finally:
            sys.stdout = kept


SIDES = {
    "argmax": lambda made: read_with_argmax(made),
    "argmax of bits": lambda made: read_with_argmax(made, fast=True),
    "analysis": analyse,
}


def measure(side: str, directory: str) -> dict:
    """Run one side in this process: seconds of clock and processor, peak memory in bytes."""
    directory = Path(directory)
    made = synthetic.Synthetic(directory / "dump", directory / "trees.conllu", directory / "dict.txt")
    wall, cpu = time.perf_counter(), time.process_time()
    SIDES[side](made)
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def run(bench: Bench, directory: str | None = None, out: str | None = None) -> str:
    """Make the dump, measure all sides in turn, delete it; the report as text."""
    for name, value in bench._asdict().items():
        if value < 1:
            raise UserError(f"--{name} {value} must be 1 or more")
    if bench.tokens < 3:
        raise UserError("--tokens must be 3 or more: two tokens and the end of sentence")
    layout = HeadLayout.full(bench.layers, bench.heads, 1, bench.heads)
    lengths = [bench.tokens] * bench.sentences
    needed = estimate_bytes(layout, lengths, [2] * bench.sentences, attention=("enc_self",))
    try:
        home = Path(tempfile.mkdtemp(prefix="bench-analysis-", dir=directory))
    except OSError as error:
        raise UserError(f"--dir: cannot make a folder in {directory}: {error.strerror}") from None
    try:
        free = shutil.disk_usage(home).free
        if needed * 1.2 > free:
            raise UserError(
                f"the dump takes {human_size(needed)} and {home} has {human_size(free)} free: "
                "give another --dir or fewer --sentences"
            )
        print(f"writing {human_size(needed)} to {home}", file=sys.stderr, flush=True)
        synthetic.make(home, bench.sentences, bench.tokens, bench.layers, bench.heads)
        runs: dict[str, list[dict]] = {side: [] for side in SIDES}
        for number in range(bench.repeats):
            for side in SIDES:
                runs[side].append(_in_new_process(side, home))
                print(
                    f"{number + 1}/{bench.repeats} {side}: {_text(runs[side][-1])}",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        shutil.rmtree(home)
    result = summary(bench, runs)
    if out:
        temporary = Path(out).with_name(Path(out).name + ".tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        os.replace(temporary, out)
    return report(result)


def _in_new_process(side: str, home: Path) -> dict:
    code = (
        "import json, sys; from benchmarks.analysis import measure; print(json.dumps(measure(*sys.argv[1:])))"
    )
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", code, side, str(home)],
        env={**os.environ, **one, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{side} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _text(measured) -> str:
    return f"{measured['wall']:.2f} s, processor {measured['cpu']:.2f} s, {human_size(measured['memory'])}"


def summary(bench: Bench, runs: dict[str, list[dict]]) -> dict:
    """Medians, spread and the two ratios of every run."""
    result: dict = {"sides": {}}
    for side, measured in runs.items():
        result["sides"][side] = {
            key: {
                "median": statistics.median(m[key] for m in measured),
                "low": min(m[key] for m in measured),
                "high": max(m[key] for m in measured),
            }
            for key in ("wall", "cpu", "memory")
        }
    for clock in ("wall", "cpu"):
        ratios = [a[clock] / b[clock] for a, b in zip(runs["analysis"], runs["argmax"])]
        result[f"ratio_{clock}"] = {
            "median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)
        }  # fmt: skip
    result["within"] = {
        "time": result["ratio_cpu"]["median"] <= LIMIT,
        "memory": result["sides"]["analysis"]["memory"]["high"] <= MEMORY,
    }
    options = {**bench._asdict(), "threads": 1}
    return {"program": "analysis", "options": options, "conditions": conditions(), "results": [result]}


def report(data: dict) -> str:
    """The numbers as a text table."""
    result, bench = data["results"][0], Bench(*(data["options"][name] for name in Bench._fields))
    lines = [
        f"{bench.sentences:,} sentences of {bench.tokens} tokens, {bench.layers * bench.heads} heads; "
        f"{bench.repeats} runs of each side in turn, 1 thread; median (lowest - highest)"
    ]
    for side, about in result["sides"].items():
        parts = [
            f"{about[key]['median']:.2f} ({about[key]['low']:.2f} - {about[key]['high']:.2f}) s {name}"
            for key, name in (("wall", "clock"), ("cpu", "processor"))
        ]
        lines.append(f"  {side:<15} {', '.join(parts)}, peak {human_size(about['memory']['high'])}")
    for clock, name in (("cpu", "processor"), ("wall", "clock")):
        ratio = result[f"ratio_{clock}"]
        lines.append(
            f"  analysis / argmax, {name} time: {ratio['median']:.2f} "
            f"({ratio['low']:.2f} - {ratio['high']:.2f}), limit {LIMIT}"
        )
    return "\n".join(lines)
