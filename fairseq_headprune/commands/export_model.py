"""``headprune export``: an imported model, pruned or not, for Hugging Face's MarianMTModel or for Marian."""

from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import check_file, check_folder


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "format",
        choices=("hf", "marian"),
        help="hf: a folder for the stock MarianMTModel; marian: an .npz and, beside it, its vocabularies",
    )
    parser.add_argument("folder", type=Path, help="folder that headprune import wrote")
    parser.add_argument("out", type=Path, metavar="OUT", help="new folder (hf) or .npz file (marian)")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="another model for the same vocabulary, as headprune remove writes it; removed heads become "
        "zeros (default: the folder's model.pt)",
    )


def run(args):
    """Run the command."""
    if args.format == "marian" and args.out.suffix != ".npz":
        raise UserError(f"OUT is {args.out}: Marian wants a name that ends in .npz")
    (check_folder if args.format == "hf" else check_file)(args.out, "OUT")
    from fairseq_headprune.exports import hf_folder, marian, trained

    source, heads = trained.read(args.folder, args.checkpoint)
    written = (hf_folder if args.format == "hf" else marian).write(source, args.out)
    names = ", ".join(path.name for path in written)
    print(f"{args.out}: {names}; of full size, with zeros for all but {heads} heads")
