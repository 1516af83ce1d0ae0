#!/usr/bin/env python3
"""What dumping the attention of every head costs beside plain translation."""

import argparse
import sys

from benchmarks import dumping, report
from fairseq_headprune.base.errors import UserError, command


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("checkpoint", help="a Transformer")
    add("--data", required=True, help="folder of binarised data")
    add("--subset", default="test", help="which part of it to translate (default: test)")
    add("--beam", type=int, default=5)
    add("--batch-size", type=int, default=32)
    add("--every", type=int, default=1, help="translate every n-th batch only (default: 1)")
    report.add_common_options(parser, device=False)
    return parser.parse_args(argv)


@command
def main(argv=None):
    args = parse(argv)
    for name in ("beam", "batch_size", "every"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(args, name)}")
    arguments = [args.data, "--path", args.checkpoint, "--gen-subset", args.subset]
    arguments += ["--beam", args.beam, "--batch-size", args.batch_size, "--cpu"]
    arguments += ["--task", "translation_headprune"]
    with report.run_of("dump", args) as run:
        run.add(dumping.compare(arguments, args.repeats, args.every, run.progress))
    print(report.page(run.to_dict(), "this run"))


if __name__ == "__main__":
    sys.exit(main())
