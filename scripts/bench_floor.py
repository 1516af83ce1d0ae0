#!/usr/bin/env python3
"""Work out the floor under measurements of bench_decoding.py: operations, bytes, and the time they
would take at the speed of a plain matrix product measured here."""

import argparse
import json

from benchmarks import models, report
from fairseq_headprune.base.errors import UserError, command
from fairseq_headprune.base.outputs import file
from fairseq_headprune.base.timing import conditions


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", help="JSON file that bench_decoding.py wrote")
    parser.add_argument(
        "--out", type=file("--out", make=False), help="JSON file to write (replaced if it exists)"
    )
    args = parser.parse_args(argv)
    from benchmarks import floor_table

    try:
        with open(args.measured, encoding="utf-8") as opened:
            measured = json.load(opened)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {args.measured}: {error}") from None
    if measured.get("program") != "decoding":
        raise UserError(f"{args.measured} was not written by bench_decoding.py")
    if measured["options"]["device"] != "cpu":
        raise UserError("the floor is worked out for measurements on the CPU only")
    rows = floor_table.rows(measured, models.size_named(measured["options"]["size"]))
    print(floor_table.table(rows))
    if args.out:
        options = measured["options"]
        found = {"program": "floor", "options": options, "results": rows}
        found["conditions"] = conditions(options["device"])
        report.write_json(args.out, found)


if __name__ == "__main__":
    main()
