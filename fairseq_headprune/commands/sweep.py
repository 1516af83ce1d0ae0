"""``headprune sweep``: prune one baseline many times and compare.

The grid is one of lambda, head counts, other criteria.
"""

import shlex
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import folder
from fairseq_headprune.experiments import pareto, points
from fairseq_headprune.experiments import run as running
from fairseq_headprune.experiments.analyse import Analysis, draw_figures
from fairseq_headprune.experiments.check import check_sweep
from fairseq_headprune.experiments.commands import Budget


def numbers(text):
    """``0.01,0.02`` -> floats."""
    try:
        return [float(part) for part in text.split(",") if part]
    except ValueError:
        raise UserError(f"'{text}' is no list of numbers: write them like 0.01,0.02") from None


def split(text, mark):
    """The parts that are not blank."""
    return [part.strip() for part in text.split(mark) if part.strip()]


def seeds(text):
    """``1,2`` -> integers of at least 1, one at least."""
    found = split(text, ",")
    if not found or not all(part.isdecimal() and int(part) for part in found):
        raise UserError(f"--seeds '{text}' is no list of seeds: write whole numbers from 1 on, like 1,2")
    return [int(part) for part in found]


def words(option, text):
    """Split as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"{option} '{text}' cannot be split into words: {error}") from None


def add_arguments(parser):
    """Declare the options."""
    add = parser.add_argument
    add("baseline", help="converged checkpoint of a Transformer (stock, gated or pruned)")
    add("--data", required=True, help="folder of binarised data")
    add(
        "--out",
        required=True,
        type=folder("--out"),
        help="folder for the runs, one folder a point; the same command continues an interrupted sweep",
    )
    add("--results", type=folder("--results"), help="write the points' JSON files and the table here too")
    add(
        "--figures",
        type=folder("--figures"),
        help="draw Figures 7 to 10 and Table 2 of --results into this folder",
    )
    add(
        "--test",
        action="append",
        required=True,
        metavar="NAME=[FOLDER/]SUBSET[:REFERENCES]",
        help="a test set: subset of the data folder (or of another one), and detokenised references "
        "(repeatable)",
    )
    add(
        "--elsewhere",
        action="append",
        default=[],
        metavar="NAME=[FOLDER/]SUBSET[:REFERENCES]",
        help="a set of another domain, scored apart (repeatable)",
    )
    add("--target-lang", required=True, help="language of the translations, for detokenisation")
    add(
        "--setting",
        choices=sorted(points.SETTINGS),
        default="enc",
        help="enc: encoder heads, decoder frozen (section 6.2); all: every type (section 6.3)",
    )
    add(
        "--lambdas",
        help="nats per head and target token, e.g. 0.005,0.01; 'none' for none "
        "(default: a grid from almost no head lost to almost none left)",
    )
    add("--targets", default="", help="head counts to reach by a learned weight, separated by ;")
    add("--keep", default="", help="head counts to cut one gated model down to, separated by ;")
    add("--keep-from", default="", help="point whose gated model that is (default: largest lambda)")
    add(
        "--criteria",
        default="",
        help="other ways of choosing heads: gradient, confidence, random, lrp-RULE, separated by commas",
    )
    add("--counts", default="", help="head counts for --criteria, separated by ;")
    add(
        "--criterion-sentences",
        type=int,
        metavar="N",
        help="sentences of the validation set that their scores are taken from (default: 200, 60 for "
        "lrp-RULE)",
    )
    add("--tuned", action="store_true", help="fine-tune the models of --criteria as the others")
    add("--scratch", default="", help="points whose heads to train from scratch, separated by commas")
    add("--scratch-updates", type=int, default=8000, help="updates from scratch (default: 8000)")
    add("--no-control", action="store_true", help="leave out the model fine-tuned with all heads")
    add("--updates", type=int, default=2000, help="updates with gates (default: 2000)")
    add("--settle-updates", type=int, default=500, help="updates after removal (default: 500)")
    add("--seeds", default="1", help="random seeds, separated by commas (default: 1)")
    for name, option in Budget.__dataclass_fields__.items():
        if name != "extra":
            add(
                "--" + name.replace("_", "-"),
                type=type(option.default),
                default=option.default,
                help=f"default: {option.default:g}",
            )
    add("--train-options", default="", help="more options for every fairseq-train command")
    add(
        "--analyse",
        default="",
        metavar="SUBSET",
        help="also dump attention on this subset and run headprune roles: what the heads that are left do",
    )
    add("--roles-options", default="", help="options of that, e.g. '--conllu FILE --frequencies DICT'")
    add("--beam", type=int, default=5)
    add("--generate-tokens", type=int, default=4000, help="--max-tokens of translation")
    add("--devices", default="", help="GPU numbers, separated by commas: one point on each at once")
    add("--jobs", type=int, default=1, help="points at once without --devices (default: 1)")
    add("--threads", type=int, default=1, help="CPU threads of each command (default: 1)")
    add("--suffix", default="", help="end of the names of points, to keep several recipes in one folder")
    add("--only", default="", help="make only these points of the grid, separated by commas")
    add(
        "--no-table",
        action="store_true",
        help="do not compare yet: for all but the last of several sweeps into one folder",
    )
    add("--dry-run", action="store_true", help="list the points and stop")


def run(args):
    """Run the command."""
    for name in ("beam", "generate_tokens", "jobs", "threads", "max_tokens"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(args, name)}")
    if args.criterion_sentences is not None and args.criterion_sentences < 1:
        raise UserError(f"--criterion-sentences must be at least 1, not {args.criterion_sentences}")
    if "/" in args.suffix:
        raise UserError(f"--suffix '{args.suffix}' cannot be part of a folder's name: leave out '/'")
    if bool(split(args.criteria, ",")) != bool(split(args.counts, ";")):
        raise UserError("--criteria and --counts need each other: name criteria and head counts")
    default = "" if args.keep or args.criteria or args.targets or args.scratch else None
    lambdas = args.lambdas if args.lambdas is not None else default
    if lambdas is None:
        lambdas = points.LAMBDAS[args.setting]
    else:
        lambdas = [] if lambdas == "none" else numbers(lambdas)
    grid = []
    for seed in seeds(args.seeds):
        criteria = [(c, n) for c in split(args.criteria, ",") for n in split(args.counts, ";")]
        made = points.make_grid(
            args.setting,
            args.updates,
            args.settle_updates,
            lambdas,
            split(args.targets, ";"),
            split(args.keep, ";"),
            args.keep_from,
            criteria,
            args.tuned,
            split(args.scratch, ","),
            args.scratch_updates,
            seed,
            not args.no_control,
            args.suffix,
            args.criterion_sentences or 0,
        )
        grid += [p for p in made if p not in grid]
    grid = points.check_points(grid)
    if args.only:
        grid = points.select(grid, split(args.only, ","))
    budget = Budget(
        **{n: getattr(args, n) for n in Budget.__dataclass_fields__ if n != "extra"},
        extra=words("--train-options", args.train_options),
    )
    analysis = Analysis(args.analyse, words("--roles-options", args.roles_options)) if args.analyse else None
    sweep = running.Sweep(
        args.baseline,
        args.data,
        Path(args.out),
        tuple(running.parse_test(t) for t in args.test),
        args.target_lang,
        budget,
        args.beam,
        args.generate_tokens,
        args.threads,
        Path(args.results) if args.results else None,
        analysis,
        tuple(running.parse_test(t, "--elsewhere") for t in args.elsewhere),
    )
    if args.figures and not args.results:
        raise UserError("--figures needs --results, the folder of the points' JSON files")
    if args.dry_run:
        check_sweep(sweep, grid)
        for point in grid:
            print(point)
        return
    running.run_sweep(sweep, grid, split(args.devices, ",") or [""] * args.jobs)
    if args.no_table:
        return
    print(pareto.compare(sweep.out, sweep.results))
    if args.figures and sweep.results:
        draw_figures(sweep.results, args.figures)
