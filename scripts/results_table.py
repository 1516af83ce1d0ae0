#!/usr/bin/env python3
"""Make the tables of a results page anew from the JSON files beside it."""

import argparse
import sys
from pathlib import Path

from benchmarks import machines, report
from fairseq_headprune.base import marked_tables
from fairseq_headprune.base.errors import command
from fairseq_headprune.experiments import pages, pareto


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "page",
        nargs="?",
        type=Path,
        default=Path("analysis/results/README.md"),
        help="Markdown file with <!-- table NAME FOLDER --> ... <!-- end -->, or "
        "<!-- table benchmark FILE --> ... <!-- end -->, or <!-- table machines FILE --> ... <!-- end --> "
        "(default: analysis/results/README.md)",
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when the page is not what the files say"
    )
    args = parser.parse_args(argv)

    def table(name, source):
        place = args.page.parent / source
        if name == "benchmark":
            return report.table(report.read(place), source)
        if name == "machines":
            return machines.table(place)
        return pages.make_table(name, pareto.load(place))

    marked_tables.update(args.page, table, args.check, "scripts/results_table.py")


if __name__ == "__main__":
    sys.exit(main())
