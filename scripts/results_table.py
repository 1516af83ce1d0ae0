#!/usr/bin/env python3
"""Make the tables of a results page anew from the JSON files beside it."""

import argparse
import os
import sys
from pathlib import Path

from fairseq_headprune.benchmarks import report
from fairseq_headprune.errors import UserError, command
from fairseq_headprune.experiments import pages, pareto


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, default=Path("analysis/results/README.md"),
                        help="Markdown file with <!-- table NAME FOLDER --> ... <!-- end -->, or "
                        "<!-- table benchmark FILE --> ... <!-- end --> "
                        "(default: analysis/results/README.md)")
    parser.add_argument("--check", action="store_true",
                        help="change nothing; fail when the page is not what the files say")
    args = parser.parse_args(argv)
    if not args.page.is_file():
        raise UserError(f"there is no page {args.page}")
    old = args.page.read_text(encoding="utf-8")
    new = pages.fill(old, lambda folder: pareto.load(args.page.parent / folder),
                     lambda file: report.table(report.read(args.page.parent / file), file))
    if args.check:
        if new != old:
            raise UserError(f"{args.page} does not show what its JSON files say: run scripts/results_table.py {args.page}")
        return
    partial = args.page.with_name(f".{args.page.name}.{os.getpid()}")
    partial.write_text(new, encoding="utf-8")
    os.replace(partial, args.page)


if __name__ == "__main__":
    sys.exit(main())
