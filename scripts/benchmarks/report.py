"""What the benchmark programs share: options, the JSON file, and tables."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.files import write_text
from fairseq_headprune.base.outputs import file
from fairseq_headprune.base.timing import conditions


def add_common_options(parser, repeats: int = 5, device: bool = True) -> None:
    """``--repeats``, ``--threads``, ``--out``, and ``--device`` for what runs on others than the CPU."""
    add = parser.add_argument
    add("--repeats", type=int, default=repeats, help=f"timed rounds, all sides in each (default: {repeats})")
    add("--threads", type=int, default=1, help="threads of torch (default: 1)")
    if device:
        add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    else:
        parser.set_defaults(device="cpu")
    add("--out", type=file("--out", make=False), help="JSON file to write (replaced if it exists)")


class Run:
    """Options, conditions and results of one benchmark."""

    def __init__(self, program: str, options: dict[str, object]):
        self.program = program
        self.options = options
        self.results: list[dict[str, object]] = []
        self.conditions: dict[str, object] = {}

    def add(self, results) -> None:
        """More results: one entry per batch size."""
        self.results += results

    def progress(self, text: str) -> None:
        """A line for who waits."""
        print(f"{self.program}: {text}", file=sys.stderr, flush=True)

    def to_dict(self) -> dict[str, object]:
        """All of it, for a JSON file."""
        return {
            "program": self.program,
            "options": self.options,
            "conditions": self.conditions,
            "results": self.results,
        }


@contextmanager
def run_of(program: str, args):
    """A Run that is written to ``args.out`` when the block ends well; UserError for bad options."""
    import torch

    if args.repeats < 1 or args.threads < 1:
        raise UserError("--repeats and --threads must be at least 1")
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("--device cuda: no such device here")
    torch.set_num_threads(args.threads)
    options = {k: v for k, v in vars(args).items() if k != "out"}
    for name in ("checkpoint", "data"):  # where files lie is nobody's business
        if options.get(name):
            options[name] = Path(options[name]).name
    run = Run(program, options)
    run.conditions = conditions(args.device)
    yield run
    if args.out:
        write_json(args.out, run.to_dict())


def write_json(path, data) -> None:
    """Whole or not at all."""
    write_text(path, json.dumps(data, indent=1) + "\n")


def with_quartiles(spread: dict[str, float], form: str) -> str:
    """``median [q1, q3]``, each in this form."""
    low, high = (form.format(spread[k]) for k in ("q1", "q3"))
    return f"{form.format(spread['median'])} [{low}, {high}]"


def in_ms(spread: dict[str, float]) -> dict[str, float]:
    """Seconds as milliseconds."""
    return {k: 1000 * spread[k] for k in ("median", "q1", "q3")}


def _row(name: str, times: dict[str, dict[str, float]]) -> list[str]:
    cpu, wall = in_ms(times["cpu"]), in_ms(times["wall"])
    return [
        name,
        with_quartiles(cpu, "{:.0f}"),
        with_quartiles(times["cpu_speedup"], "{:.2f}"),
        with_quartiles(wall, "{:.0f}"),
        with_quartiles(times["wall_speedup"], "{:.2f}"),
    ]


TIMES = ["CPU ms", "speed-up", "wall ms", "speed-up"]


def same_program(entry, name: str) -> str:
    """CPU time of our program with all heads over this side's, which is what removal gives; of files
    without it the quotient of the medians. Nothing for stock fairseq, another program."""
    if name == "stock":
        return ""
    if "same_program" in entry:
        return with_quartiles(entry["same_program"][name], "{:.2f}")
    return f"{entry['times']['gated']['cpu']['median'] / entry['times'][name]['cpu']['median']:.2f}"


def decoding_table(results) -> str:
    """Markdown: a line per batch size and side; medians and quartiles. What removal gives comes first."""
    rows = []
    for entry in results:
        for name, times in entry["times"].items():
            found = entry["agreement"].get(name)
            encoder = entry.get("encoder_times", {}).get(name)
            same = "" if found is None else f"{found['identical']} of {found['hypotheses']}"
            alone = with_quartiles(encoder["cpu_speedup"], "{:.2f}") if encoder else ""
            first, *rest = _row(name, times)
            rows.append([str(entry["batch"]), first, same_program(entry, name), *rest, alone, same])
    header = ["batch", "model", "same program", *TIMES, "encoder alone", "same hypotheses"]
    return markdown(header, rows)


def training_table(results, reference: str = "stock", first: str = "model") -> str:
    """Markdown: a line per side, with the ratios of its time (and memory, if measured) to the reference's."""
    rows, header = [], [first, *TIMES, f"CPU time / {reference}"]
    for entry in results:
        peaks = entry.get("peak_bytes", {})
        for name, times in entry["times"].items():
            row = _row(name, times) + [f"{1 / times['cpu_speedup']['median']:.3f}"]
            if peaks:
                row += [f"{peaks[name] / 1e6:,.0f}", f"{peaks[name] / peaks[reference]:.2f}"]
            rows.append(row)
    if any("peak_bytes" in entry for entry in results):
        header += ["peak MB of an update", f"peak / {reference}"]
    return markdown(header, rows)


def dump_table(results) -> str:
    """Markdown: translation alone and with a dump, and what was dumped."""
    said = [f"{e['sentences']:,} sentences, {e['dump_bytes'] / 1e6:.0f} MB" for e in results]
    return training_table(results, "plain", "translation") + "\n\n" + "; ".join(said)


def deployment_table(results) -> str:
    """Markdown: a line per side, with bytes, BLEU, and sentences translated as by the removed model."""
    rows = []
    for entry in results:
        for name, times in entry["times"].items():
            extra = [
                f"{entry['bytes'][name]:,}",
                f"{entry['quality'][name]['bleu']:.2f}",
                f"{entry['same_as_removed'][name]} of {entry['sentences']}",
            ]
            rows.append(_row(name, times) + extra)
    return markdown(["model"] + TIMES + ["bytes", "BLEU", "same as removed"], rows)


def analysis_table(results) -> str:
    """Markdown: a line per side, lowest and highest time of all runs, and the ratios."""
    rows, said = [], []
    for entry in results:
        for name, side in entry["sides"].items():
            times = [
                f"{side[k]['median']:.1f} [{side[k]['low']:.1f}, {side[k]['high']:.1f}]"
                for k in ("cpu", "wall")
            ]
            rows.append([name, *times, f"{side['memory']['high'] / 1e9:.2f}"])
        ratio = entry["ratio_cpu"]
        said.append(
            f"analysis / argmax, CPU time, run by run: {ratio['median']:.2f} "
            f"[{ratio['low']:.2f}, {ratio['high']:.2f}]"
        )
    return markdown(["side", "CPU s [lowest, highest]", "wall s", "peak GB"], rows) + "\n\n" + "; ".join(said)


def profile_table(results) -> str:
    """Markdown: a column per side, a line per group of operators, percent."""
    sides = [f"{entry['model']}, batch {entry['batch']}" for entry in results]
    groups = list(dict.fromkeys(group for entry in results for group in entry["shares"]))
    rows = [
        [group] + [f"{100 * entry['shares'].get(group, 0.0):.0f} %" for entry in results] for group in groups
    ]
    return markdown(["time spent in"] + sides, rows)


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table with padded columns."""
    widths = [max(len(line[i]) for line in [header] + rows) for i in range(len(header))]
    lines = [header, ["-" * width for width in widths]] + rows
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines
    )


def read(path) -> dict[str, object]:
    """What a benchmark wrote; UserError for a file that holds no JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def table(data: dict[str, object], source: str) -> str:
    """The table of one JSON file; UserError when no benchmark wrote it."""
    from benchmarks import device_check, floor_table, relevance_tables

    tables = {
        "decoding": decoding_table,
        "training": training_table,
        "ctranslate2": deployment_table,
        "profile": profile_table,
        "floor": floor_table.table,
        "dump": dump_table,
        "analysis": analysis_table,
        "relevance": relevance_tables.tables,
        "device-check": device_check.table,
    }
    if not isinstance(data, dict) or data.get("program") not in tables:
        raise UserError(f"{source} was not written by a benchmark")
    return tables[data["program"]](data["results"])


def page(data: dict[str, object], source: str) -> str:
    """The table of one JSON file under its options and conditions; UserError for other files."""
    shown = table(data, source)
    options = ", ".join(f"{k} {v}" for k, v in data["options"].items())
    conditions = ", ".join(f"{k} {v}" for k, v in data["conditions"].items())
    return f"{options}\n({conditions})\n\n{shown}\n"


def exit_status(results) -> int:
    """1 when a model found other best hypotheses than the model it must equal, else 0."""
    found = [a for entry in results for a in entry["agreement"].values()]
    return int(any(a["identical_best"] != a["sentences"] for a in found))
