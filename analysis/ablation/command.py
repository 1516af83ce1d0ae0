"""``headprune ablate``: what happens to loss and BLEU when heads are switched off.

Every head off alone, all other heads of its layer off, and whole layers off, at test time, without
any training after it (Michel et al. 2019 call the first two "ablating one" and "all but one").
"""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_headprune.analysis.ablation.heads_off import interventions
from fairseq_headprune.analysis.ablation.progress import Progress
from fairseq_headprune.analysis.ablation.table import COLUMNS, KINDS, summary
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError, out_folder
from fairseq_headprune.base.intervals import GROUPS, Bootstrap, group
from fairseq_headprune.units.layout import Head, parse_head, parse_types


def add_arguments(parser):
    """Options of the command."""
    parser.add_argument("checkpoint", help="stock, gated or pruned Transformer checkpoint")
    parser.add_argument("--data", required=True, help="folder of its binarised data")
    parser.add_argument("--subset", default="valid", help="which data to score (default: valid)")
    parser.add_argument(
        "--out", required=True, type=out_folder, help="folder for ablation.json and ablation.csv"
    )
    parser.add_argument("--types", default="all", help="enc-self,dec-self,dec-enc or all (default)")
    parser.add_argument(
        "--kinds",
        default=",".join(KINDS),
        help="without (each head off), alone (the "
        "others of its layer off), layer (a whole layer off); default: all three",
    )
    parser.add_argument("--sentences", type=int, help="use only the first so many")
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
    from fairseq_headprune.dump import file_sha256
    from fairseq_headprune.nn.projections import open_layout, whole_layout

    model, _, task = load_model(args.checkpoint, args.data)
    batches = load_batches(task, model, args.subset, args.max_tokens, args.sentences)
    layout = open_layout(model)
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
    identity = {
        "model": {"file": str(args.checkpoint), "sha256": file_sha256(args.checkpoint)},
        "data": {"path": str(args.data), "subset": args.subset, "sentences": scorer.sentences},
        "options": {
            name: getattr(args, name)
            for name in ("resamples", "level", "seed", "beam", "bpe", "moses", "references")
        },
    }
    done = Progress(Path(args.out), identity)
    started = time.monotonic()
    baseline = scorer.losses()
    differ = LossDifference(baseline, args.resamples, args.level, args.seed)
    for item in done.missing(todo, "loss"):
        done.add(item, differ.measure(scorer.losses(item.off)))
    bleu = None
    if args.bleu:
        bleu = _bleu(args, task, model, batches, done, todo, layout)
    result = {
        "provenance": {
            "program": "analysis ablate",
            "arguments": sys.argv[2:],
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds_of_last_run": round(time.monotonic() - started, 1),
            "versions": _versions(),
            **identity,
            "layout": layout.to_dict(),
            "whole": whole_layout(model).to_dict(),
        },
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
    if args.references is not None and not args.bleu:
        raise UserError("--references is for BLEU: add --bleu, or leave it out")
    if args.bleu and "without" not in kinds:
        raise UserError("--bleu switches single heads off: add 'without' to --kinds")
    return kinds


def _versions() -> dict[str, str]:
    import sacrebleu

    from fairseq_headprune.recording.run import versions

    return {**versions(), "sacrebleu": sacrebleu.__version__}


class LossDifference:
    """Differences to one baseline, with paired-bootstrap intervals over sentences."""

    def __init__(self, baseline, resamples: int, level: float, seed: int):
        self.baseline = baseline
        self.groups = min(len(baseline.nats), GROUPS)
        self.bootstrap = Bootstrap(self.groups, resamples, level, seed)
        self._group = np.array([group(i, self.groups) for i in range(len(baseline.nats))])
        self._tokens = np.bincount(self._group, baseline.tokens, self.groups)

    def measure(self, losses) -> dict[str, float]:
        """``loss`` in nats per target token, ``difference`` to the baseline, ``low``, ``high``."""
        change = np.bincount(self._group, losses.nats - self.baseline.nats, self.groups)
        low, high = self.bootstrap.interval(change[:, None], self._tokens[:, None])
        return {
            "loss": losses.mean(),
            "difference": float(change.sum() / self._tokens.sum()),
            "low": float(low[0]),
            "high": float(high[0]),
        }


def choose_heads(text: str, layout, records: Sequence[dict[str, Any]]) -> list[Head]:
    """Heads named by --bleu: all, the N with the largest change of the loss, or a list."""
    if text == "all":
        return list(layout)
    if text.isdecimal():
        order = sorted(records, key=lambda r: -abs(r["difference"]))
        return [Head(r["type"], r["layer"], r["head"]) for r in order[: int(text)]]
    heads = [parse_head(part) for part in text.split(",")]
    for head in heads:
        if not head.layer < len(layout[head.type]) or head not in layout:
            raise UserError(f"--bleu names {head}, which the model does not have")
    return heads


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
