#!/usr/bin/env python3
"""Print the tables of JSON files that the benchmarks wrote, with the conditions they ran under."""

import argparse

from benchmarks import report
from fairseq_headprune.base.errors import command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="JSON files of bench_*.py or device_check.py")
    args = parser.parse_args(argv)
    for path in args.files:
        print(report.page(report.read(path), path))


if __name__ == "__main__":
    main()
