"""``headprune compare``: translate one set with several checkpoints in turns; heads, BLEU, sizes, speed."""

import sys

import sacrebleu

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import file
from fairseq_headprune.experiments import comparison
from fairseq_headprune.recording.relevance_table import save_json


def add_arguments(parser):
    """Declare the options."""
    parser.add_argument(
        "checkpoints",
        nargs="+",
        metavar="NAME=FILE",
        help="checkpoints to compare; speed is relative to the first, and to the first in our program",
    )
    parser.add_argument("--data", required=True, help="folder of binarised data (fairseq-preprocess)")
    parser.add_argument("--gen-subset", default="test")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--max-sentences", type=int, default=16, help="sentences in a batch")
    parser.add_argument(
        "--tokenize",
        default="none",
        help="sacreBLEU's tokenisation; BLEU is over "
        "the words of the binarised text, which is tokenised already (default: none)",
    )
    parser.add_argument(
        "--remove-bpe",
        "--post-process",
        nargs="?",
        const="@@ ",
        metavar="MARK",
        help="how pieces are joined to words, as fairseq-generate takes it: @@, sentencepiece, ... "
        "(default: found from the dictionary)",
    )
    parser.add_argument(
        "--json", type=file("--json", make=False), metavar="FILE", help="write the numbers there too"
    )


def run(args):
    """Run the command."""
    named = {}
    for part in args.checkpoints:
        name, _, path = part.partition("=")
        if not (name and path):
            raise UserError(f"'{part}' names no checkpoint: write NAME=FILE")
        if name == comparison.NOTHING_REMOVED:
            raise UserError(f"'{name}' is the name of a row that is added: choose another")
        if name in named:
            raise UserError(f"two checkpoints are called '{name}': give each its own name")
        named[name] = path
    for option, value in (("--beam", args.beam), ("--max-sentences", args.max_sentences)):
        if value < 1:
            raise UserError(f"{option} must be at least 1, not {value}")
    if args.tokenize not in sacrebleu.BLEU.TOKENIZERS:
        known = ", ".join(sacrebleu.BLEU.TOKENIZERS)
        raise UserError(f"--tokenize does not know '{args.tokenize}': use one of {known}")
    try:
        sacrebleu.BLEU(tokenize=args.tokenize)
    except (RuntimeError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"--tokenize {args.tokenize} does not work here: {reason}") from None

    def progress(done, total):
        end = "\n" if done == total else ""
        print(f"\rtranslating: batch {done} of {total}", end=end, file=sys.stderr, flush=True)

    rows = comparison.compare(
        named,
        args.data,
        args.gen_subset,
        args.beam,
        args.max_sentences,
        args.tokenize,
        progress,
        args.remove_bpe,
    )
    if args.json:
        save_json(comparison.as_json(rows), args.json)
    print(comparison.table(rows))
