"""``headprune import``: a model of Marian (OPUS-MT, Firefox) or Hugging Face as a fairseq data folder."""

import re
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import folder


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "source",
        help="Marian .npz or .bin (float32, or 8-bit intgemm), or the Hugging Face folder of a MarianMTModel",
    )
    parser.add_argument(
        "--out",
        required=True,
        type=folder("--out"),
        help="new folder: model.pt, dictionaries, SentencePiece models, README",
    )
    parser.add_argument(
        "--source-lang", help="short name of the source language (default: what the source says, else src)"
    )
    parser.add_argument("--target-lang", help="the same for the target (default: else tgt)")
    parser.add_argument(
        "--vocabs",
        nargs="+",
        metavar="VOCAB",
        help="vocabulary of both languages, or of source and target "
        "(.spm, .yml, .json; default: those that the .yml beside a Marian model names)",
    )


def run(args):
    """Run the command."""
    from fairseq_headprune.imports import checkpoint, folder, hf_folder, marian

    path = Path(args.source)
    if path.is_dir():
        if args.vocabs:
            raise UserError("--vocabs is for Marian models: a Hugging Face folder has its own")
        source = hf_folder.read(path)
    elif not path.is_file():
        raise UserError(f"{path} does not exist: name a Marian model or a Hugging Face folder")
    else:
        source = marian.read(path, args.vocabs)
    languages = (
        args.source_lang or source.languages[0] or "src",
        args.target_lang or source.languages[1] or "tgt",
    )
    for option, language in zip(("--source-lang", "--target-lang"), languages):
        if not re.fullmatch(r"[A-Za-z0-9_+]+", language):
            raise UserError(f"{option} '{language}' is no name for a file: use letters, digits and _")
    if languages[0] == languages[1]:
        raise UserError(f"--source-lang and --target-lang are both '{languages[0]}': fairseq needs two names")
    folder.write(source, languages, checkpoint.build(source, languages), args.out)
    for note in source.notes:
        print(note)
    print(f"{args.out}: {folder.MODEL}, dict.{languages[0]}.txt, dict.{languages[1]}.txt, README.md")
