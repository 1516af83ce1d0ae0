#!/usr/bin/env python3
"""What the relevance of every head at every generation step costs, rule by rule."""

import argparse
import sys

from benchmarks import relevance, report
from fairseq_headprune.base.errors import UserError, command


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("checkpoint", nargs="?", help="also time a batch of this Transformer's data")
    add("--data", help="folder of its binarised data")
    add("--subset", default="valid", help="which part of it (default: valid)")
    add("--sentences", type=int, default=32, help="pairs in the batch (default: 32)")
    report.add_common_options(parser, repeats=15, device=False)
    return parser.parse_args(argv)


@command
def main(argv=None):
    args = parse(argv)
    if args.sentences < 1:
        raise UserError(f"--sentences must be at least 1, not {args.sentences}")
    if args.checkpoint and not args.data:
        raise UserError("a checkpoint is timed on its data: name the folder of binarised data with --data")
    with report.run_of("relevance", args) as run:
        run.add(relevance.run(args.repeats, args.checkpoint, args.data, args.subset, args.sentences))
    print(report.page(run.to_dict(), "this run"))


if __name__ == "__main__":
    sys.exit(main())
