#!/usr/bin/env python3
"""Print the tables of JSON files that the benchmarks wrote, with the conditions they ran under."""

import argparse
import json

from fairseq_headprune.benchmarks import report
from fairseq_headprune.errors import UserError, command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="JSON files of bench_*.py or device_check.py")
    args = parser.parse_args(argv)
    for path in args.files:
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {path}: {error}") from None
        print(report.page(data, path))


if __name__ == "__main__":
    main()
