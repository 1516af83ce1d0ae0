#!/usr/bin/env python3
"""Time a full training step, and its peak memory: with gates and our loss, with gates off, and stock."""

import argparse

from benchmarks import models, report
from fairseq_headprune.base.errors import command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base", help="size of model: " + ", ".join(models.SIZES))
    parser.add_argument("--words", type=int, default=8000, help="vocabulary (default: 8000)")
    parser.add_argument("--sentences", type=int, default=8, help="sentences in a batch (default: 8)")
    parser.add_argument("--length", type=int, default=25, help="tokens a sentence (default: 25)")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout (default: 0.1)")
    report.add_common_options(parser)
    args = parser.parse_args(argv)
    from benchmarks import training

    size = models.size_named(args.size)
    with report.run_of("training", args) as run:
        run.add(
            training.run(
                size,
                args.words,
                args.sentences,
                args.length,
                args.dropout,
                args.repeats,
                args.device,
                run.progress,
            )
        )
    print(report.training_table(run.results))


if __name__ == "__main__":
    raise SystemExit(main())
