#!/usr/bin/env python3
"""Translate a test set with a checkpoint in fairseq, with its heads removed, and in CTranslate2."""

import argparse

from benchmarks import report
from fairseq_headprune.base.errors import command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="stock, gated or pruned Transformer checkpoint")
    parser.add_argument("--data", required=True, help="folder of binarised data")
    parser.add_argument(
        "--layout",
        help="keep these heads (JSON file, checkpoint or JSON text) instead of those whose gates are open",
    )
    parser.add_argument("--subset", default="test", help="test set of the data (default: test)")
    parser.add_argument("--limit", type=int, default=200, help="sentences (default: 200)")
    parser.add_argument("--batch", type=int, default=16, help="sentences at once (default: 16)")
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: 5)")
    report.add_common_options(parser)
    args = parser.parse_args(argv)
    from benchmarks import ctranslate2_side
    from fairseq_headprune.models.layout_source import read_layout

    with report.run_of("ctranslate2", args) as run:
        run.add(
            ctranslate2_side.run(
                args.checkpoint,
                args.data,
                read_layout(args.layout) if args.layout else None,
                args.subset,
                args.limit,
                args.batch,
                args.beam,
                args.repeats,
                args.threads,
                run.progress,
            )
        )
    print(report.deployment_table(run.results))


if __name__ == "__main__":
    main()
