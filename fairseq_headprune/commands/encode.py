"""``headprune encode``: plain text as the binarised data that fairseq-train and fairseq-generate want."""

from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import folder


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument("folder", type=Path, help="folder that headprune import wrote")
    parser.add_argument("--source", required=True, type=Path, help="text in the source language, UTF-8")
    parser.add_argument(
        "--target",
        type=Path,
        help="its translation, line by line; --split test can do without, and then has no references",
    )
    parser.add_argument(
        "--split", default="test", choices=("train", "valid", "test"), help="which part (default: test)"
    )
    parser.add_argument(
        "--out",
        required=True,
        type=folder("--out"),
        help="folder of the data; gets the dictionaries too, and one call after the other adds its parts",
    )


def run(args):
    """Run the command."""
    if args.target is None and args.split != "test":
        raise UserError(f"--split {args.split} needs --target: only a test set can do without")
    if not (args.folder / "source.spm").is_file():
        raise UserError(f"{args.folder} has no source.spm: name a folder that headprune import wrote")

    from fairseq_headprune.translation import encoding

    texts = {"source": args.source, "target": args.target}
    written = encoding.encode(
        args.folder, {side: path for side, path in texts.items() if path}, args.split, Path(args.out)
    )
    for part in written:
        numbers = f"{part.lines:,} lines, {part.pieces:,} pieces, {part.unknown:,} unknown"
        print(f"{args.split}, {part.language}: {numbers}")
