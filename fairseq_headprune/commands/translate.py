"""``headprune translate``: plain text in, plain text out, with the folder of an imported model."""

import sys
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import folder
from fairseq_headprune.units.layout import parse_types


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "folder", type=Path, help="folder that headprune import wrote; text comes from standard input"
    )
    parser.add_argument(
        "--checkpoint",
        help="another model for the same vocabulary, as headprune remove writes it "
        "(default: the folder's model.pt)",
    )
    parser.add_argument(
        "--beam", type=int, default=5, help="size of the beam; 1 is greedy search (default: 5)"
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=2000,
        help="source pieces in a batch, padding included (default: 2000)",
    )
    parser.add_argument(
        "--dump-attention",
        metavar="DIR",
        type=folder("--dump-attention"),
        help="write the attention of every head to this new folder, for headprune roles",
    )
    parser.add_argument(
        "--dump-types",
        default="all",
        help="whose: enc-self, dec-self, dec-enc, comma-separated, or all (default)",
    )


def run(args):
    """Run the command."""
    for option in ("beam", "max_tokens"):
        if getattr(args, option) < 1:
            raise UserError(f"--{option.replace('_', '-')} must be at least 1, not {getattr(args, option)}")
    pieces = args.folder / "source.spm"
    if not pieces.is_file():
        raise UserError(f"{args.folder} has no source.spm: name a folder that headprune import wrote")
    try:
        lines = sys.stdin.buffer.read().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"standard input is not UTF-8 ({error}): convert it first") from None
    if lines and not lines[-1]:
        lines.pop()

    types = parse_types(args.dump_types)
    if args.dump_attention and not types:
        raise UserError("--dump-types none leaves nothing to dump: name attention types")
    from fairseq_headprune.translation.plain_text import PlainText

    translator = PlainText(args.folder, args.checkpoint, args.beam)
    if args.dump_attention:
        translator.dump(args.dump_attention, types)
    for line in translator.translate(lines, args.max_tokens):
        sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
    sys.stdout.flush()
