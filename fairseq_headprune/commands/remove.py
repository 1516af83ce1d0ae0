"""``headprune remove``: write a checkpoint without some heads.

They are those whose gates are closed, or heads of your choice.
"""

import os

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.models.layout_source import read_layout
from fairseq_headprune.selection import scores
from fairseq_headprune.selection.choose import chosen
from fairseq_headprune.units.target import parse_target


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("checkpoint", help="stock, gated or pruned Transformer checkpoint")
    parser.add_argument("output", help="checkpoint file to write")
    parser.add_argument(
        "--layout",
        help="keep these heads (JSON file, checkpoint or JSON text) instead of those whose gates are open",
    )
    parser.add_argument(
        "--keep",
        help="keep exactly so many heads, those of highest score --by a criterion: "
        "a number, or per type like enc-self=10,dec-self=20",
    )
    parser.add_argument(
        "--by",
        default="gates",
        metavar="CRITERION",
        help="what --keep chooses by: gates (default), gradient, confidence, lrp-RULE or random",
    )
    parser.add_argument(
        "--data", metavar="FOLDER", help="binarised data whose 'valid' the scores are taken from"
    )
    parser.add_argument(
        "--sentences",
        type=int,
        default=0,
        metavar="N",
        help="so many of its sentences (default: 200, 60 for lrp)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of --by random (default: 1)")
    parser.add_argument(
        "--dense",
        action="store_true",
        help="write a stock transformer checkpoint of full size with zeros, which needs no --user-dir",
    )
    parser.add_argument("--fp16", action="store_true", help="store half-precision weights")
    parser.add_argument(
        "--force", action="store_true", help="overwrite the output; allow removing every dec-enc head"
    )


def run(args):
    """Run the command."""
    if args.layout is not None and args.keep is not None:
        raise UserError("give --layout or --keep, not both")
    if args.keep is None and args.by != "gates":
        raise UserError(f"--by {args.by} says how --keep chooses: say how many heads with --keep")
    scores.check_criterion(args.by)
    if args.sentences < 0:
        raise UserError(f"--sentences must be at least 1, not {args.sentences}")
    removal.check_output(args.output, args.force)
    state = checkpoints.load_checkpoint(args.checkpoint)
    layout = None
    if args.layout is not None:
        layout = read_layout(args.layout, "--layout")
        layout.check_within(checkpoints.existing_layout(state), f"--layout {args.layout}")
    elif args.keep is not None:
        target = parse_target(args.keep, "--keep")
        found = scores.score_heads(args.by, args.checkpoint, args.data, args.seed, args.sentences)
        layout = chosen(state, found, target, args.by)
    result = removal.remove_heads(state, layout, args.dense, args.fp16, args.force)
    removal.save(result, args.output, args.force)
    kept = checkpoints.open_layout(state) if layout is None else layout
    print(kept.table(checkpoints.whole_layout(state)))
    old = removal.parameter_count(removal.without_gates(state["model"]))
    new = removal.parameter_count(result["model"])
    size = os.path.getsize(args.output)
    print(f"parameters: {old:,} -> {new:,}; {args.output}: {size:,} bytes")
