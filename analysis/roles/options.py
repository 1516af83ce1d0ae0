"""The options of ``headprune roles``, and which of them make sense together."""

import argparse

from fairseq_headprune.analysis.parses import relation_name
from fairseq_headprune.analysis.roles import heads as roles
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import folder
from fairseq_headprune.units.layout import flag, parse_types


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("dump", metavar="DUMP", help="directory of the dump")
    parser.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        type=folder("--out"),
        help="directory for heads.json and its tables",
    )
    parser.add_argument(
        "--figures",
        metavar="DIR",
        type=folder("--figures"),
        help="draw Figure 1 there too, as headprune figures does",
    )
    trees = parser.add_mutually_exclusive_group()
    trees.add_argument(
        "--conllu",
        metavar="FILE",
        help="dependency trees of the dump's source text, "
        "CoNLL-U, plain or .gz, sentence i for sentence i (for syntactic heads)",
    )
    trees.add_argument(
        "--stanza",
        metavar="DIR",
        help="parse the dump's words with the Stanza models "
        "in DIR, offline; the trees are kept as trees.conllu in the output directory",
    )
    parser.add_argument(
        "--stanza-lang", metavar="LANG", default="en", help="language of the models (default: en)"
    )
    parser.add_argument(
        "--frequencies",
        metavar="DICT",
        help="how often each source token occurs in "
        "training, lines 'token count', e.g. the model's dict.en.txt (for rare-word heads)",
    )
    parser.add_argument(
        "--types",
        metavar="TYPES",
        help="attention types, e.g. enc-self,dec-enc (default: all that the dump has)",
    )
    parser.add_argument(
        "--relations",
        metavar="NAMES",
        default="nsubj,obj,amod,advmod",
        help="dependency relations (default: nsubj,obj,amod,advmod; dobj is obj)",
    )
    parser.add_argument(
        "--keep-subtypes", action="store_true", help="count nsubj:pass apart from nsubj, and so on"
    )
    rules = parser.add_argument_group("when a head has a function (paper, section 5)")
    rules.add_argument(
        "--positional-share",
        type=float,
        default=roles.POSITIONAL_SHARE,
        metavar="X",
        help="positional: share of one relative position (default: 0.9)",
    )
    rules.add_argument(
        "--positional-over",
        choices=("possible", "all"),
        default=roles.Thresholds().positional_over,
        help="... over the query tokens for which that position exists, or over all of them "
        "(default: possible)",
    )
    rules.add_argument(
        "--syntactic-over",
        choices=("pairs", "words"),
        default=roles.Thresholds().syntactic_over,
        help="a case of a relation: a pair of words, so that a noun with two adjectives asks twice, or a "
        "word that asks once and may find either (default: pairs)",
    )
    rules.add_argument(
        "--margin",
        type=float,
        default=roles.SYNTACTIC_MARGIN,
        metavar="X",
        help="syntactic: how far above the positional baseline (default: 0.1)",
    )
    rules.add_argument(
        "--margin-kind",
        choices=("points", "relative"),
        default="points",
        help="... in points of accuracy, or relative to the baseline (default: points)",
    )
    rules.add_argument(
        "--rare-top",
        type=int,
        default=roles.RARE_TOP,
        metavar="N",
        help="rare words: leave out sentences whose rarest token is among the N most frequent (default: 500)",
    )
    rules.add_argument(
        "--rare-share",
        type=float,
        default=roles.RARE_SHARE,
        metavar="X",
        help="... how often on one of the two rarest tokens (default: 0.5, and 0.1 above chance)",
    )
    numbers = parser.add_argument_group("intervals and checks")
    numbers.add_argument("--bootstrap", type=int, default=1000, metavar="N", help="resamples (default: 1000)")
    numbers.add_argument(
        "--level", type=float, default=0.95, metavar="X", help="of the intervals (default: 0.95)"
    )
    numbers.add_argument("--seed", type=int, default=1, metavar="N", help="of the resamples (default: 1)")
    numbers.add_argument(
        "--max-unaligned",
        type=float,
        default=0.1,
        metavar="X",
        help="share of sentences whose parse may have another text before the run is refused (default: 0.1)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def thresholds(args) -> roles.Thresholds:
    """When a head has a function; checks the other numbers too."""
    for name in ("positional_share", "margin", "rare_share", "max_unaligned"):
        if not 0 <= getattr(args, name) <= 1:
            raise UserError(f"--{name.replace('_', '-')} {getattr(args, name)} must be between 0 and 1")
    if not 0 < args.level < 1:
        raise UserError(f"--level {args.level} must be between 0 and 1, e.g. 0.95")
    for name in ("bootstrap", "rare_top"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be 1 or more")
    if args.seed < 0:
        raise UserError(f"--seed must be at least 0, not {args.seed}")
    return roles.Thresholds(
        positional_share=args.positional_share,
        positional_over=args.positional_over,
        syntactic_over=args.syntactic_over,
        margin=args.margin,
        margin_kind=args.margin_kind,
        rare_share=args.rare_share,
    )


def relations(text: str, keep_subtypes: bool) -> tuple[str, ...]:
    """The relations asked for, by the names they are counted under."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise UserError("--relations names no relation: write e.g. nsubj,obj")
    if not keep_subtypes and any(":" in name for name in names):
        raise UserError("--relations names a subtype: add --keep-subtypes to count subtypes apart")
    return tuple(dict.fromkeys(relation_name(name, keep_subtypes) for name in names))


def types(dump, args) -> tuple[str, ...]:
    """The attention types to look at."""
    has = dump.manifest["contents"]["attention"]
    wanted = parse_types(args.types) if args.types else tuple(has)
    missing = [flag(t) for t in wanted if t not in has]
    if missing:
        raise UserError(
            f"{args.dump} has no {', '.join(missing)} attention: dump it, or ask for "
            f"{', '.join(map(flag, has)) or 'another dump'} with --types"
        )
    if not wanted:
        raise UserError(f"{args.dump} has no attention at all: dump some, or name --types")
    for option in ("conllu", "stanza", "frequencies"):
        if getattr(args, option) and "enc_self" not in wanted:
            raise UserError(
                f"--{option} is about encoder self-attention, which "
                f"{'--types leaves out' if args.types else 'the dump does not have'}"
            )
    return wanted
