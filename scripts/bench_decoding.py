#!/usr/bin/env python3
"""Time beam search with stock, gated and pruned models, and check that they find the same."""

import argparse

from benchmarks import models, report
from fairseq_headprune.base.errors import command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base", help="size of model: " + ", ".join(models.SIZES))
    parser.add_argument("--words", type=int, default=8000, help="vocabulary (default: 8000)")
    parser.add_argument(
        "--layouts",
        nargs="+",
        default=list(models.COUNTS),
        help="heads kept out of 48 a type, scaled to the size: " + " ".join(models.COUNTS),
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16], help="sentences at once")
    parser.add_argument("--source-length", type=int, default=25, help="tokens (default: 25)")
    parser.add_argument("--target-length", type=int, default=26, help="tokens (default: 26)")
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: 5)")
    report.add_common_options(parser)
    args = parser.parse_args(argv)
    from benchmarks import decoding

    size = models.size_named(args.size)
    with report.run_of("decoding", args) as run:
        run.add(
            decoding.run(
                size,
                args.words,
                args.layouts,
                args.batches,
                args.source_length,
                args.target_length,
                args.beam,
                args.repeats,
                args.device,
                run.progress,
            )
        )
    print(report.decoding_table(run.results))
    return report.exit_status(run.results)


if __name__ == "__main__":
    raise SystemExit(main())
