#!/usr/bin/env python3
"""What the relevance of every head at every generation step costs, rule by rule."""

import argparse
import sys

import torch

from fairseq_headprune.benchmarks import relevance
from fairseq_headprune.errors import command
from fairseq_headprune.relevance_table import save_json


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("checkpoint", nargs="?", help="also time a batch of this Transformer's data")
    add("--data", help="folder of its binarised data")
    add("--subset", default="valid", help="which part of it (default: valid)")
    add("--sentences", type=int, default=32, help="pairs in the batch (default: 32)")
    add("--repeats", type=int, default=15, help="rounds that count (default: 15)")
    add("--threads", type=int, default=1, help="threads of torch (default: 1)")
    add("--out", help="write the result to this JSON file")
    return parser.parse_args(argv)


@command
def main(argv=None):
    args = parse(argv)
    torch.set_num_threads(args.threads)
    result = relevance.run(args.repeats, args.checkpoint, args.data, args.subset, args.sentences)
    print(f"one sentence, 16 + 16 tokens, 6+6 layers, width 128; {args.threads} thread(s)")
    for row in result["sentence"]:
        cpu = row["cpu_seconds"]
        print(
            f"  {row['rule']:<10} {row['dtype']}: median {1000 * cpu['median']:.0f} ms CPU "
            f"(quartiles {1000 * cpu['q1']:.0f} to {1000 * cpu['q3']:.0f}), limit "
            f"{1000 * row['limit_seconds']:.0f}; 1/{row['authors_seconds_over_ours']:.0f} of the authors' code"
        )
    if "batch" in result:
        batch = result["batch"]
        print(
            f"{batch['sentences']} sentences of {batch['mean_steps']:.1f} steps; forward + backward "
            f"{1000 * batch['forward_backward_seconds']['median']:.0f} ms"
        )
        for row in batch["rows"]:
            multiple = row["multiple"]
            print(
                f"  {row['rule']:<10} {row['dtype']}: {multiple['median']:.1f} times that (quartiles "
                f"{multiple['q1']:.1f} to {multiple['q3']:.1f}), {row['multiple_per_step']:.2f} a step"
            )
    if args.out:
        save_json(result, args.out)


if __name__ == "__main__":
    sys.exit(main())
