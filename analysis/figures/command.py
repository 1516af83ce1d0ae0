"""``headprune figures``: draw every figure that the given tables allow."""

import argparse
import importlib
import io
import logging
import pkgutil
from pathlib import Path

from fairseq_headprune.analysis.figures import inputs as reading
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import folder

PREFIXES = ("fig", "table")


def add_arguments(parser):
    """Options of the command."""
    parser.add_argument(
        "--heads",
        action="append",
        metavar="[NAME=]FILE",
        help="a heads.json of `roles`; the first is the main model, more of them are compared with it",
    )
    parser.add_argument(
        "--points",
        metavar="DIR",
        help="folder with a JSON file per point of a sweep (Figures 7 to 10, Table 2)",
    )
    parser.add_argument(
        "--point-roles", metavar="DIR", help="folder with NAME/heads.json of the points (Figure 8)"
    )
    parser.add_argument("--maps", metavar="FILE", help="attention maps of `analysis maps` (Figure 5)")
    parser.add_argument("--ablation", metavar="FILE", help="ablation.json of `ablate` (Figure 11)")
    parser.add_argument("--out", required=True, type=folder("--out"), help="folder for the pictures")
    parser.add_argument("--only", metavar="NAMES", help="comma-separated, e.g. fig01,table02")


def names() -> list[str]:
    """The figures there are: every file of this folder called fig... or table..."""
    package = importlib.import_module("fairseq_headprune.analysis.figures")
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.name.startswith(PREFIXES))


def draw(name: str, inputs) -> dict[str, object]:
    """File name without ending -> matplotlib figure or Markdown text."""
    module = importlib.import_module(f"fairseq_headprune.analysis.figures.{name}")
    drawn = module.draw(inputs)
    if not isinstance(drawn, dict):
        return {name: drawn}
    number, _, title = name.partition("_")
    return {f"{number}{ending}_{title}": figure for ending, figure in drawn.items()}


def caption(name: str) -> str:
    """First paragraph of the figure's docstring."""
    module = importlib.import_module(f"fairseq_headprune.analysis.figures.{name}")
    return " ".join(module.__doc__.split("\n\n")[0].split())


def save(drawn: dict[str, object], folder) -> list[str]:
    """Write PNG and PDF, or Markdown; returns the files' names."""
    written = []
    for stem, result in drawn.items():
        if isinstance(result, str):
            files.write_text(Path(folder) / f"{stem}.md", result)
            written.append(f"{stem}.md")
            continue
        for ending in ("png", "pdf"):
            data = io.BytesIO()
            # without a date in it, the same tables give the same bytes
            result.savefig(data, format=ending, metadata={"CreationDate": None} if ending == "pdf" else None)
            files.write_bytes(Path(folder) / f"{stem}.{ending}", data.getvalue())
            written.append(f"{stem}.{ending}")
    return written


def draw_heads(heads, out) -> None:
    """Figure 1 of one heads.json."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    run(parser.parse_args(["--heads", str(heads), "--out", str(out), "--only", "fig01"]))


def run(args):
    """Run the command."""
    import matplotlib

    matplotlib.use("agg")
    for chatty in ("matplotlib", "fontTools", "PIL"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    from matplotlib import pyplot

    from fairseq_headprune.analysis.figures import style

    wanted = names()
    if args.only:
        parts = args.only.split(",")
        unknown = [part for part in parts if not any(n.startswith(part) for n in wanted)]
        if unknown:
            raise UserError(f"--only {unknown[0]}: there are {', '.join(wanted)}")
        wanted = [n for n in wanted if any(n.startswith(part) for part in parts)]
    inputs = reading.read(args)
    count = 0
    for name in wanted:
        try:
            with style.applied():
                drawn = draw(name, inputs)
                written = save(drawn, args.out)
        except reading.Missing as missing:
            if args.only:
                raise UserError(f"{name} needs {missing}") from None
            print(f"{name}: left out, needs {missing}")
            continue
        finally:
            pyplot.close("all")
        count += len(written)
        print(f"{name}: {', '.join(written)}")
    if not count:
        raise UserError("nothing could be drawn from what was given: see --help for the inputs")
