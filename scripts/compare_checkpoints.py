#!/usr/bin/env python3
"""Translate one set with several checkpoints in turns; print heads, BLEU, sizes and speed."""

import argparse
import json
import sys
from pathlib import Path

from fairseq_headprune import comparison
from fairseq_headprune.errors import UserError, command


@command
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoints", nargs="+", metavar="NAME=FILE",
                        help="checkpoints to compare; speed is relative to the first")
    parser.add_argument("--data", required=True, help="folder of binarised data (fairseq-preprocess)")
    parser.add_argument("--gen-subset", default="test")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--max-sentences", type=int, default=16, help="sentences in a batch")
    parser.add_argument("--tokenize", default="none", help="sacreBLEU's tokenisation; BLEU is over "
                        "the words of the binarised text, which is tokenised already (default: none)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    args = parser.parse_args(argv)
    named = {}
    for part in args.checkpoints:
        name, _, path = part.partition("=")
        if not path:
            raise UserError(f"'{part}' names no checkpoint: write NAME=FILE")
        named[name] = path

    def progress(done, total):
        end = "\n" if done == total else ""
        print(f"\rtranslating: batch {done} of {total}", end=end, file=sys.stderr, flush=True)

    rows = comparison.compare(
        named, args.data, args.gen_subset, args.beam, args.max_sentences, args.tokenize, progress
    )
    if args.json:
        Path(args.json).write_text(json.dumps(comparison.as_json(rows), indent=1) + "\n")
    print(comparison.table(rows))


if __name__ == "__main__":
    main()
