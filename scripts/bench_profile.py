#!/usr/bin/env python3
"""Show where beam search with stock, gated and pruned models spends its time."""

import argparse
from functools import partial

from benchmarks import models, report
from fairseq_headprune.base.errors import command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base", help="size of model: " + ", ".join(models.SIZES))
    parser.add_argument("--words", type=int, default=8000, help="vocabulary (default: 8000)")
    parser.add_argument("--layouts", nargs="+", default=["8/13/15"], help="heads kept out of 48 a type")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16], help="sentences at once")
    report.add_common_options(parser)
    args = parser.parse_args(argv)
    from benchmarks import decoding, profile

    size = models.size_named(args.size)
    with report.run_of("profile", args) as run:
        timed, _ = decoding.sides(size, args.words, args.layouts, 26, 5, args.device)
        for batch in args.batches:
            sample = decoding.sentences(batch, 25, args.words)
            for name, search in timed.items():
                run.progress(f"batch {batch}, {name}")
                found = profile.profile(partial(search.generate, [], sample), args.repeats)
                run.add([{"batch": batch, "model": name, "shares": found}])
    print(report.profile_table(run.results))


if __name__ == "__main__":
    main()
