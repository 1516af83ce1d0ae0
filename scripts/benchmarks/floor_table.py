"""The floor beside measured searches, from the JSON of bench_decoding.py."""

import torch

from benchmarks import floor, models, report
from benchmarks.models import Size


def rows(measured: dict[str, object], size: Size) -> list[dict[str, object]]:
    """One entry per batch size and model; the matrix products are timed now."""
    options = measured["options"]
    torch.set_num_threads(options["threads"])
    found = []
    for entry in measured["results"]:
        batch = entry["batch"]
        rates = floor.rates(size, batch, options["source_length"], options["beam"])
        for name, times in entry["times"].items():
            counts = name.split()[1] if name.startswith("pruned") else "48/48/48"
            layout = models.spread_evenly(models.counts_for(counts, size), size)
            work = floor.search_work(
                size,
                options["words"],
                layout,
                batch,
                options["source_length"],
                options["target_length"],
                options["beam"],
            )
            seconds = times["cpu"]["median"]
            compared = floor.compare_with_floor(work, *rates, seconds)
            found.append({"batch": batch, "model": name, **compared})
    return found


def table(entries: list[dict[str, object]]) -> str:
    """Markdown."""
    header = ["batch", "model", "GFLOP", "GB read", "product GFLOP/s (enc, dec)", "floor ms"]
    header += ["CPU ms", "times floor"]
    lines = [
        [
            str(e["batch"]),
            e["model"],
            f"{e['gflop']:.2f}",
            f"{e['gbyte']:.2f}",
            f"{e['encoder_gflop_per_second']:.0f}, {e['decoder_gflop_per_second']:.0f}",
            f"{1000 * e['floor_seconds']:.0f}",
            f"{1000 * e['measured_seconds']:.0f}",
            f"{e['times_floor']:.2f}",
        ]
        for e in entries
    ]
    return report.markdown(header, lines)
