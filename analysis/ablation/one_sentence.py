"""``headprune ablate --sentence``: one head off for one input, and what each target token loses by it."""

import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fairseq_headprune.analysis.ablation.provenance import identity, provenance
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import Head, HeadLayout, flag, parse_types

COLUMNS = ("type", "layer", "head", "position", "token", "log_p", "change")
SHOWN = 10


def heads_asked_for(args, layout: HeadLayout) -> list[Head]:
    """The heads of ``--types``, or those of ``--heads``; UserError when there are none."""
    heads = list(HeadLayout.parse(args.heads, layout, "--heads") if args.heads else layout)
    heads = [head for head in heads if head.type in parse_types(args.types)]
    if not heads:
        raise UserError(f"--types {args.types} leaves no head to switch off")
    return heads


def run(args, task, model, scorer, heads: list[Head]) -> None:
    """Switch each head off alone and write ``sentence-ID.json`` and ``.csv``."""
    started = time.monotonic()
    (target,) = ([i for i in row.tolist() if i != scorer.pad] for row in scorer.batches[0]["target"])
    before = -scorer.token_nats([])
    records: list[dict[str, Any]] = []
    for head in tqdm(heads, desc="ablate", unit=" heads", disable=None):
        instead = None if args.replace == "zero" else {head: None}
        change = -scorer.token_nats([head], instead) - before
        records.append({**head._asdict(), "total": float(change.sum()), "changes": change.tolist()})
    source, symbols = task.source_dictionary, task.target_dictionary
    options = ("sentence", "heads", "types", "replace")
    result = {
        "provenance": provenance(identity(args, 1, options), model, time.monotonic() - started),
        "sentence": {
            "id": args.sentence,
            "source": [source[i] for i in scorer.sources()[0].tolist()],
            "target": [symbols[i] for i in target],
            "log_p": before.tolist(),
        },
        "records": records,
    }
    out = Path(args.out)
    files.write_json(out / f"sentence-{args.sentence}.json", result)
    files.write_csv(out / f"sentence-{args.sentence}.csv", _rows(result), COLUMNS)
    print(summary(result))


def _rows(result):
    sentence = result["sentence"]
    for record in result["records"]:
        tokens = zip(sentence["target"], sentence["log_p"], record["changes"])
        for position, (token, log_p, change) in enumerate(tokens):
            yield {**record, "position": position, "token": token, "log_p": log_p, "change": change}


def summary(result: dict[str, Any]) -> str:
    """Of every target token the head that it loses most by, then the heads that matter most in all."""
    sentence, records = result["sentence"], result["records"]

    def name(record):
        return f"{flag(record['type'])}:{record['layer']}:{record['head']}"

    tokens = [["token", "log p", "loses most without", "change"]]
    for place, (token, log_p) in enumerate(zip(sentence["target"], sentence["log_p"])):
        worst = min(records, key=lambda r: r["changes"][place])
        tokens.append([token, f"{log_p:.3f}", name(worst), f"{worst['changes'][place]:+.3f}"])
    heads = [["head", "sum over tokens", "most changed token", "its change"]]
    for record in sorted(records, key=lambda r: -abs(r["total"]))[:SHOWN]:
        place = max(range(len(record["changes"])), key=lambda i: abs(record["changes"][i]))
        heads.append(
            [
                name(record),
                f"{record['total']:+.3f}",
                f"{place}: {sentence['target'][place]}",
                f"{record['changes'][place]:+.3f}",
            ]
        )
    how = {"zero": "switched off", "uniform": "given equal weights"}[
        result["provenance"]["options"]["replace"]
    ]
    return "\n".join(
        [
            f"source: {' '.join(sentence['source'])}",
            f"each of {len(records)} heads {how} alone; changes of log-probability in nats",
            "",
            files.table(tokens, left=1),
            "",
            files.table(heads, left=1),
            "",
            "This is one input: it shows how sensitive this output is, not what the head does elsewhere.",
        ]
    )
