#!/usr/bin/env python3
"""How long the analysis of all four roles takes, next to only reading the dump with one argmax a row.

Both sides run in turn on the same made-up dump (by default the paper's scale: 50,000 sentences of 24
tokens, 48 heads, 2.8 GB), each in a process of its own with one thread. Prints medians with their
spread and peak memory, and writes them as JSON.

    python scripts/bench_analysis.py --sentences 5000 --out bench.json
"""

import argparse
import sys

from benchmarks.analysis import Bench, run
from fairseq_headprune.base.errors import command
from fairseq_headprune.base.outputs import file


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sentences", type=int, default=50000, metavar="N")
    parser.add_argument("--tokens", type=int, default=24, metavar="N", help="a sentence, its end counted")
    parser.add_argument("--layers", type=int, default=6, metavar="N")
    parser.add_argument("--heads", type=int, default=8, metavar="N", help="a layer")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="of both sides, in turn")
    parser.add_argument("--dir", metavar="DIR", help="where to put the dump (default: a temporary "
                        "directory); it is deleted at the end")  # fmt: skip
    parser.add_argument(
        "--out", type=file("--out", make=False), metavar="FILE", help="write the numbers as JSON"
    )
    args = parser.parse_args(argv)
    bench = Bench(args.sentences, args.tokens, args.layers, args.heads, args.repeats)
    print(run(bench, args.dir, args.out))


if __name__ == "__main__":
    sys.exit(main())
