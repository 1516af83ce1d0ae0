"""One benchmark on several machines: how far its ratios move from one to the next.

``FOLDER/NAME.json`` is from the first machine, ``FOLDER/*/NAME.json`` from the others.
"""

from pathlib import Path

from benchmarks.report import markdown, read, same_program, with_quartiles


def runs(path: Path) -> list[dict]:
    """The benchmark's files, the first machine's first."""
    return [read(file) for file in [path, *sorted(path.parent.glob(f"*/{path.name}"))]]


def _rows(data: dict) -> dict[tuple[str, str], list[str]]:
    """(batch or sentences, side) -> the ratios that are compared: within our program (decoding), and
    with the reference."""
    found = {}
    for entry in data["results"]:
        for name, times in entry["times"].items():
            over = with_quartiles(times["cpu_speedup"], "{:.2f}")
            cells = [same_program(entry, name), over] if data["program"] == "decoding" else [over]
            found[str(entry.get("batch", entry.get("sentences"))), name] = cells
    return found


def table(path: Path) -> str:
    """Markdown: a line per side, a column (two in decoding) per machine."""
    every = [(data["conditions"]["processor"], _rows(data)) for data in runs(path)]
    decoding = len(next(iter(every[0][1].values()))) == 2
    what = ["same program", "over stock"] if decoding else ["speed-up"]
    header = [f"{ratio}, {processor}" for ratio in what for processor, _ in every]
    lines = []
    for batch, name in every[0][1]:
        if name in ("stock", "plain"):
            continue
        cells = [rows.get((batch, name), [""] * len(what))[i] for i in range(len(what)) for _, rows in every]
        lines.append([batch, name, *cells])
    return markdown(["batch", "model", *header], lines)
