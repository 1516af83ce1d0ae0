"""``headprune ablate``: what happens to loss and BLEU when heads are switched off.

Every head off alone, all other heads of its layer off, and whole layers off, at test time, without
any training after it (Michel et al. 2019 call the first two "ablating one" and "all but one").
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_headprune.analysis.ablation import by_function, one_sentence
from fairseq_headprune.analysis.ablation.heads_off import interventions
from fairseq_headprune.analysis.ablation.loss_difference import LossDifference
from fairseq_headprune.analysis.ablation.progress import GOES_ON, Progress
from fairseq_headprune.analysis.ablation.provenance import identity, provenance
from fairseq_headprune.analysis.ablation.table import COLUMNS, KINDS, summary
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError, goes_on
from fairseq_headprune.base.locking import FolderLock
from fairseq_headprune.base.outputs import folder
from fairseq_headprune.units.layout import Head, HeadLayout, parse_types

OPTIONS = ("resamples", "level", "seed", "beam", "bpe", "moses", "references")
"""Options on which a measurement depends."""


def add_arguments(parser):
    """Options of the command."""
    parser.add_argument("checkpoint", help="stock, gated or pruned Transformer checkpoint")
    parser.add_argument("--data", required=True, help="folder of its binarised data")
    parser.add_argument("--subset", default="valid", help="which data to score (default: valid)")
    parser.add_argument(
        "--out", required=True, type=folder("--out"), help="folder for ablation.json and ablation.csv"
    )
    parser.add_argument("--types", default="all", help="enc-self,dec-self,dec-enc or all (default)")
    parser.add_argument(
        "--kinds",
        default=",".join(KINDS),
        help="without (each head off), alone (the "
        "others of its layer off), layer (a whole layer off); default: all three",
    )
    parser.add_argument("--sentences", type=int, help="use only the first so many")
    together = parser.add_argument_group("sets of heads, switched off together (by_function.json)")
    together.add_argument(
        "--by-function",
        metavar="HEADS_JSON",
        help="all heads of a function, for each function in this heads.json of headprune roles",
    )
    together.add_argument("--heads", metavar="HEADS", help="these heads, e.g. enc-self:0:3,dec-enc:5:1")
    together.add_argument(
        "--replace",
        choices=by_function.REPLACE,
        default="zero",
        help="output zero (default), or attention replaced: equal weights, or all of it at the head's most "
        "frequent relative position in --by-function",
    )
    together.add_argument(
        "--conllu",
        metavar="TREES",
        help="trees of the data's source: sentences that have a relation are held against sentences of the "
        "same length that have not",
    )
    together.add_argument("--relations", default="nsubj,obj,amod,advmod", help="(default: %(default)s)")
    parser.add_argument(
        "--sentence",
        type=int,
        metavar="ID",
        help="each head off alone for this sentence of the data (counted from 0): the change in the "
        "log-probability of each target token (sentence-ID.json); with --heads, --types, --replace uniform",
    )
    parser.add_argument(
        "--bleu",
        metavar="HEADS",
        help="also translate: all, the N heads whose loss "
        "changes most, or heads like enc-self:0:3,dec-enc:5:1 (each off alone)",
    )
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument(
        "--bpe",
        "--remove-bpe",
        help="how pieces are joined before BLEU, as fairseq-generate's "
        "--remove-bpe (default: found from the dictionary)",
    )
    parser.add_argument("--moses", metavar="LANG", help="undo Moses tokenization in this language")
    parser.add_argument("--references", help="text file to score against; default: the data's targets")
    parser.add_argument("--resamples", type=int, default=1000, help="bootstrap resamples over sentences")
    parser.add_argument("--level", type=float, default=0.95, help="level of the intervals")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-tokens", type=int, default=1000, help="tokens a batch")


def run(args):
    """Run the command."""
    kinds = _check(args)
    from fairseq_headprune.analysis.ablation.sentence_loss import Scorer, load_batches
    from fairseq_headprune.checkpoints.reading import load_model
    from fairseq_headprune.nn.projections import open_layout

    model, _, task = load_model(args.checkpoint, args.data)
    layout = open_layout(model)
    if args.sentence is not None:
        heads = one_sentence.heads_asked_for(args, layout)
        batches = load_batches(task, model, args.subset, args.max_tokens, None, args.sentence)
        scorer = Scorer(model, batches, task.target_dictionary.pad())
        return one_sentence.run(args, task, model, scorer, heads)
    if args.by_function or args.heads:
        by_function.chosen(args, layout)  # what is wrong with them is told before the data is read
    batches = load_batches(task, model, args.subset, args.max_tokens, args.sentences)
    if args.by_function or args.heads:
        scorer = Scorer(model, batches, task.target_dictionary.pad())
        return by_function.run(args, task, model, scorer, layout)
    todo = [i for i in interventions(layout, parse_types(args.types)) if i.kind in kinds]
    todo.sort(key=lambda i: KINDS.index(i.kind))
    if not todo:
        raise UserError(f"--types {args.types} leaves no head to switch off in {args.checkpoint}")
    if args.bleu:
        choose_heads(args.bleu, layout, [])  # a head that is not there is told now, not after hours
    scorer = Scorer(model, batches, task.target_dictionary.pad())
    if args.references:
        from fairseq_headprune.analysis.ablation.bleu import read_references

        read_references(args.references, scorer.sentences)  # likewise
    same = identity(args, scorer.sentences, OPTIONS)
    with FolderLock(args.out), goes_on(GOES_ON):
        done = Progress(Path(args.out), same)
        started = time.monotonic()
        baseline = scorer.losses()
        differ = LossDifference(baseline, args.resamples, args.level, args.seed)
        for item in done.missing(todo, "loss"):
            done.add(item, differ.measure(scorer.losses(item.off)))
        bleu = None
        if args.bleu:
            bleu = _bleu(args, task, model, batches, done, todo, layout)
        result = {
            "provenance": provenance(same, model, time.monotonic() - started),
            "baseline": {
                "loss": baseline.mean(),
                "tokens": int(baseline.tokens.sum()),
                "sentences": scorer.sentences,
                **(bleu or {}),
            },
            "records": done.records(interventions(layout)),
        }
        files.write_json(Path(args.out) / "ablation.json", result)
        files.write_csv(Path(args.out) / "ablation.csv", result["records"], COLUMNS)
        done.close()
        print(summary(result))


def _check(args) -> list[str]:
    kinds = args.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        raise UserError(f"--kinds {args.kinds}: use {', '.join(KINDS)}")
    if not 0 < args.level < 1:
        raise UserError(f"--level must lie between 0 and 1, not {args.level}")
    for name in ("resamples", "beam", "max_tokens", "sentences"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
    if args.seed < 0:
        raise UserError(f"--seed must be at least 0, not {args.seed}")
    if args.sentence is not None:
        _check_sentence(args)
    together = args.by_function or args.heads or args.sentence is not None
    if not together and (args.replace != "zero" or args.conllu):
        option = "--conllu" if args.conllu else f"--replace {args.replace}"
        raise UserError(f"{option} is for sets of heads: add --by-function or --heads")
    if together and args.bleu:
        raise UserError("--bleu switches single heads off: leave it out, or --by-function and --heads")
    if args.references is not None and not args.bleu:
        raise UserError("--references is for BLEU: add --bleu, or leave it out")
    if args.bleu and "without" not in kinds:
        raise UserError("--bleu switches single heads off: add 'without' to --kinds")
    return kinds


def _check_sentence(args) -> None:
    """UserError for options that mean nothing for a single sentence."""
    if args.sentence < 0:
        raise UserError(f"--sentence must be at least 0, not {args.sentence}")
    if args.replace == "offset":
        raise UserError("--replace offset is for --by-function: with --sentence use zero or uniform")
    for name in ("by_function", "bleu", "conllu", "sentences"):
        if getattr(args, name):
            raise UserError(f"--{name.replace('_', '-')} is for many sentences: leave it or --sentence out")


def choose_heads(text: str, layout, records: Sequence[dict[str, Any]]) -> list[Head]:
    """Heads named by --bleu: all, the N with the largest change of the loss, or a list."""
    if text == "all":
        return list(layout)
    if text.isdecimal():
        order = sorted(records, key=lambda r: -abs(r["difference"]))
        return [Head(r["type"], r["layer"], r["head"]) for r in order[: int(text)]]
    return list(HeadLayout.parse(text, layout, "--bleu"))


def _bleu(args, task, model, batches, done, todo, layout) -> dict[str, Any]:
    from fairseq_headprune.analysis.ablation.bleu import Translator, difference, read_references
    from fairseq_headprune.translation import scoring

    singles = {Head(i.type, i.layer, i.head): i for i in todo if i.kind == "without"}
    heads = choose_heads(args.bleu, layout, [done.record(i) for i in singles.values()])
    wanted = [singles[h] for h in heads if h in singles]
    translator = Translator(task, model, batches, args.beam, args.bpe, args.moses)
    references = translator.references()
    if args.references:
        references = read_references(args.references, len(references))
    baseline = translator.translate()
    for item in done.missing(wanted, "bleu"):
        translated = translator.translate(item.off)
        done.add(item, difference(translated, baseline, references, args.resamples))
    score = scoring.score(baseline, references)
    return {"bleu": score["bleu"], "signature": score["signature"], "beam": args.beam}
