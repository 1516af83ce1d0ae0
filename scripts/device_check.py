#!/usr/bin/env python3
"""Compare what a device computes with what the CPU computes; status 1 when they differ too much."""

import argparse

from benchmarks import models, report
from fairseq_headprune.base.errors import command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="tiny", help="size of model: " + ", ".join(models.SIZES))
    parser.add_argument("--words", type=int, default=1000, help="vocabulary (default: 1000)")
    parser.add_argument("--benchmarks", help="also time decoding and training at this size")
    report.add_common_options(parser)
    args = parser.parse_args(argv)
    from benchmarks import device_check

    setting = device_check.Setting(models.size_named(args.size), args.words, args.device)
    with report.run_of("device-check", args) as run:
        run.add(device_check.run(setting, run.progress))
        if args.benchmarks:
            timed = device_check.Setting(models.size_named(args.benchmarks), 8000, args.device)
            run.add(device_check.benchmarks(timed, args.repeats, run.progress))
    print(device_check.table(run.results))
    return int(not all(entry["good"] for entry in run.results))


if __name__ == "__main__":
    raise SystemExit(main())
