#!/usr/bin/env python3
"""Write a corpus of the demo language: text, CoNLL-U trees and BPE for three splits."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo_language import corpus  # noqa: E402
from fairseq_headprune.base.errors import UserError, command  # noqa: E402


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True, metavar="DIR", help="folder to write to")
    p.add_argument("--seed", type=int, default=1, help="draws other sentences of the same language")
    p.add_argument("--train", type=int, default=30000, metavar="N", help="sentences to train on")
    p.add_argument("--valid", type=int, default=500, metavar="N", help="sentences to validate on")
    p.add_argument("--test", type=int, default=1000, metavar="N", help="sentences to test on")
    p.add_argument("--merges", type=int, default=corpus.BPE_MERGES, help="joint BPE merges")
    p.add_argument("--force", action="store_true", help="replace files that are there")
    return p


@command
def main(argv=None):
    args = parser().parse_args(argv)
    if args.merges < 1:
        raise UserError(f"--merges must be at least 1, not {args.merges}")
    sizes = {split: getattr(args, split) for split in corpus.SPLITS}
    corpus.check_sizes(sizes)
    folder = corpus.open_folder(args.out, args.force)
    corpus.write_corpus(folder, corpus.corpus_files(corpus.draw_splits(args.seed, sizes), args.merges))
    print(f"{args.out}: " + ", ".join(f"{sizes[s]} {s}" for s in corpus.SPLITS) + " sentence pairs")


if __name__ == "__main__":
    main()
