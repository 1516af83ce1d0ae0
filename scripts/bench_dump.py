#!/usr/bin/env python3
"""What dumping the attention of every head costs beside plain translation."""

import argparse
import sys

import torch

from fairseq_headprune.benchmarks import dumping
from fairseq_headprune.errors import command
from fairseq_headprune.relevance_table import save_json


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("checkpoint", help="a Transformer")
    add("--data", required=True, help="folder of binarised data")
    add("--subset", default="test", help="which part of it to translate (default: test)")
    add("--beam", type=int, default=5)
    add("--batch-size", type=int, default=32)
    add("--every", type=int, default=1, help="translate every n-th batch only (default: 1)")
    add("--repeats", type=int, default=5, help="rounds that count (default: 5)")
    add("--threads", type=int, default=1, help="threads of torch (default: 1)")
    add("--out", help="write the result to this JSON file")
    return parser.parse_args(argv)


@command
def main(argv=None):
    args = parse(argv)
    torch.set_num_threads(args.threads)
    arguments = [args.data, "--path", args.checkpoint, "--gen-subset", args.subset]
    arguments += ["--beam", args.beam, "--batch-size", args.batch_size, "--cpu"]
    arguments += ["--task", "translation_headprune"]
    result = dumping.compare(
        arguments, args.repeats, args.every, lambda line: print(line, file=sys.stderr, flush=True)
    )
    for kind in ("cpu", "wall"):
        cost = result["cost"][kind]
        print(
            f"dump / plain, {kind} time: median {cost['median']:.3f} "
            f"(quartiles {cost['q1']:.3f} to {cost['q3']:.3f}, {cost['n']} rounds)"
        )
    megabytes = result["dump_bytes"] / 1e6
    print(f"{result['sentences']} sentences, {megabytes:.0f} MB, {args.threads} thread(s)")
    if args.out:
        save_json(result, args.out)


if __name__ == "__main__":
    sys.exit(main())
