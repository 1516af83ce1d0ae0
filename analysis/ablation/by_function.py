"""``headprune ablate --by-function``: all heads of a function switched off together, or told where to look.

A head that finds a relation need not be used for it. If it is, taking it away should cost sentences that have
the relation more than sentences of the same length that have not; and if it is more than a fixed position,
holding it to that position should cost something too.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from fairseq_headprune.analysis import head_table
from fairseq_headprune.analysis.ablation.contrast import Contrast
from fairseq_headprune.analysis.ablation.loss_difference import LossDifference
from fairseq_headprune.analysis.ablation.provenance import identity, provenance
from fairseq_headprune.analysis.alignment import Misfit, align
from fairseq_headprune.analysis.head_table import HeadTable
from fairseq_headprune.analysis.parses import ConlluFile, relation_name
from fairseq_headprune.analysis.roles.options import relations as relation_names
from fairseq_headprune.analysis.words import EOS
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import Head, HeadLayout

REPLACE = ("zero", "uniform", "offset")
GIVEN = "given heads"
MAX_UNALIGNED = 0.1
"""Share of sentences that may have another text than their tree before the trees are refused."""
COLUMNS = (
    *("set", "heads", "relation", "loss", "difference", "low", "high"),
    *(name + suffix for name in ("with", "without", "contrast") for suffix in ("", "_low", "_high")),
    *("sentences_with", "sentences_without", "unmatched"),
)


def sets_of(table: HeadTable) -> dict[str, list[Head]]:
    """Heads by what they do, positional first: ``positional``, ``syntactic``, ``syntactic nsubj`` and so on
    for each relation in either direction, ``rare words``."""
    found: dict[str, list[Head]] = {}
    for head in table.records:
        for function in table.functions(head):
            names = {"rare": ["rare words"]}.get(function.kind, [function.kind])
            if function.kind == "syntactic":
                names = names + [f"syntactic {function.detail}"]
            for name in names:
                if head not in found.setdefault(name, []):
                    found[name].append(head)
    kinds = ("positional", "syntactic", "rare")
    return dict(sorted(found.items(), key=lambda item: kinds.index(item[0].split()[0])))


def chosen(args, layout: HeadLayout) -> tuple[dict[str, list[Head]], dict[Head, int | None]]:
    """The sets to switch off, and the best fixed offset of each head that the table has.

    UserError for a table of another model, heads that are not there, or nothing to switch off.
    """
    sets: dict[str, list[Head]] = {}
    offsets: dict[Head, int | None] = {}
    if args.by_function:
        table = head_table.read(args.by_function)
        sets = sets_of(table)
        offsets = {head: record["positional"].get("offset") for head, record in table.records.items()}
        _check_model(args, table)
    if args.heads:
        sets[GIVEN] = list(HeadLayout.parse(args.heads, layout, "--heads"))
    if not sets:
        raise UserError(f"no head of {args.by_function} has a function: name heads with --heads")
    for head in {head for heads in sets.values() for head in heads}:
        if head not in layout:
            raise UserError(f"{args.by_function} names {head}, which the model does not have")
        if args.replace == "offset" and offsets.get(head) is None:
            raise UserError(
                f"--replace offset needs the best offset of {head}: give a heads.json that has it to "
                "--by-function"
            )
    return sets, offsets


def _check_model(args, table: HeadTable):
    from fairseq_headprune.dump import file_sha256

    model = table.provenance.get("model") or {}
    if model.get("sha256") != file_sha256(args.checkpoint):
        raise UserError(
            f"{args.by_function} is about another checkpoint ({model.get('file')}): give the roles of "
            f"{args.checkpoint}"
        )


def relations_in(
    trees: ConlluFile, sources: Sequence[Sequence[str]], file: str
) -> tuple[np.ndarray, list[set]]:
    """Of each sentence whether its tree has its text, and the relations in the tree; UserError when the trees
    are plainly those of another text. ``sources``: tokens without EOS."""
    if len(trees) < len(sources):
        raise UserError(
            f"{file} has {len(trees)} sentences and the data {len(sources)}: give the trees of its source"
        )
    fits, found, example = np.zeros(len(sources), bool), [], ""
    for number, tokens in enumerate(sources):
        parse = trees[number]
        found.append({relation_name(label) for label in parse.labels})
        try:
            align(tokens, parse.surface)
            fits[number] = True
        except Misfit as misfit:
            example = example or f" (sentence {number}: {misfit})"
    if (~fits).sum() > MAX_UNALIGNED * len(sources):
        raise UserError(
            f"{(~fits).sum()} of {len(sources)} sentences have another text than their tree in {file}"
            f"{example}: give the trees of the data's source, sentence by sentence in its order"
        )
    return fits, found


def run(args, task, model, scorer, layout: HeadLayout) -> None:
    """Measure every set and write ``by_function.json`` and ``by_function.csv``."""
    sets, offsets = chosen(args, layout)
    symbols = task.source_dictionary
    sources = [[symbols[i] for i in ids.tolist()] for ids in scorer.sources()]
    sources = [tokens[: len(tokens) - (tokens[-1:] == [EOS])] for tokens in sources]
    relations: list[str] = []
    if args.conllu:
        relations = list(relation_names(args.relations, False))
        fits, found = relations_in(ConlluFile(args.conllu), sources, args.conllu)
    started = time.monotonic()
    before = scorer.losses()
    differ = LossDifference(before, args.resamples, args.level, args.seed)
    contrast = Contrast(np.array(list(map(len, sources))), args.resamples, args.level, args.seed)
    records = []
    for name, heads in tqdm(sets.items(), desc="ablate", unit=" sets", disable=None):
        after = scorer.losses(heads, instead_of(args.replace, heads, offsets))
        about = {"set": name, "heads": list(map(str, heads))}
        records.append({**about, "relation": None, **differ.measure(after)})
        for relation in relations:
            has = np.array([relation in of_sentence for of_sentence in found])
            records.append({**about, "relation": relation, **contrast.measure(before, after, has, fits)})
    options = ("by_function", "heads", "replace", "conllu", "relations", "resamples", "level", "seed")
    result = {
        "provenance": provenance(
            identity(args, scorer.sentences, options), model, time.monotonic() - started
        ),
        "baseline": {
            "loss": before.mean(),
            "tokens": int(before.tokens.sum()),
            "sentences": scorer.sentences,
            "unaligned": int((~fits).sum()) if args.conllu else None,
        },
        "records": records,
    }
    out = Path(args.out)
    files.write_json(out / "by_function.json", result)
    rows = [{**record, "heads": " ".join(record["heads"])} for record in records]
    files.write_csv(out / "by_function.csv", rows, COLUMNS)
    print(summary(result))


def instead_of(replace: str, heads: Sequence[Head], offsets: Mapping[Head, int | None]):
    """What `heads_off` takes: nothing for ``zero``; None by head for ``uniform``, its own for ``offset``."""
    if replace == "zero":
        return None
    return {head: None if replace == "uniform" else offsets[head] for head in heads}


WHAT = {
    "zero": "off",
    "uniform": "with equal weights everywhere",
    "offset": "held to their best fixed offset",
}


def summary(result: Mapping[str, Any]) -> str:
    """The table as text, and how to read it."""
    base, options = result["baseline"], result["provenance"]["options"]

    def change(record, name):
        if record.get(name) is None:
            return "–"
        low, high = (record[f"{name}_{end}" if name != "difference" else end] for end in ("low", "high"))
        return f"{record[name]:+.4f} [{low:+.4f}, {high:+.4f}]"

    rows = [
        [
            "heads " + WHAT[options["replace"]],
            "relation",
            "loss +",
            "with it",
            "without",
            "contrast",
            "sentences",
        ]
    ]
    for r in result["records"]:
        if r["relation"] is None:
            rows.append(
                [f"{r['set']} ({len(r['heads'])})", "all sentences", change(r, "difference"), "", "", "", ""]
            )
        else:
            compared = f"{r['sentences_with']} / {r['sentences_without']}"
            rows.append(
                ["", r["relation"], "", *(change(r, n) for n in ("with", "without", "contrast")), compared]
            )
    contrasts = sum(r["relation"] is not None for r in result["records"])
    lines = [
        f"whole model: loss {base['loss']:.4f} nats per token ({base['sentences']:,} sentences, "
        f"{base['tokens']:,} tokens); changes with {100 * options['level']:g} % intervals over sentences",
        files.table(rows, left=2),
    ]
    if contrasts:
        lines.append(
            "contrast: change in sentences that have the relation less that in sentences of the same length "
            f"that have not; {contrasts * (1 - options['level']):.1f} of {contrasts} exclude 0 by chance"
        )
    return "\n".join(lines)
