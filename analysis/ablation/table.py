"""The table that `analysis ablate` writes: reading it, and telling a person what it says."""

from typing import Any

from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, flag

KINDS = ("without", "alone", "layer")
LOSS_KEYS = ("loss", "difference", "low", "high")
BLEU_KEYS = ("bleu", "bleu_difference", "bleu_low", "bleu_high", "bleu_p")
COLUMNS = ("kind", "type", "layer", "head", *LOSS_KEYS, *BLEU_KEYS)


def summary(result: dict[str, Any]) -> str:
    """What a person wants to see first: the heads that matter most, and how many do not."""
    base, records = result["baseline"], result["records"]
    level = 100 * result["provenance"]["options"]["level"]
    lines = [
        f"whole model: loss {base['loss']:.4f} nats per token "
        f"({base['sentences']:,} sentences, {base['tokens']:,} tokens)"
        + (f", BLEU {base['bleu']:.2f} ({base['signature']})" if "bleu" in base else "")
    ]
    for kind, title in (
        ("without", "one head off"),
        ("alone", "its layer's other heads off"),
        ("layer", "a whole layer off"),
    ):
        mine = sorted((r for r in records if r["kind"] == kind), key=lambda r: -r["difference"])
        if not mine:
            continue
        worse = sum(r["low"] > 0 for r in mine)
        better = sum(r["high"] < 0 for r in mine)
        lines.append(
            f"\n{title}: of {len(mine)}, {worse} make the loss larger and {better} smaller "
            f"({level:g} % interval without 0; by chance alone about {len(mine) * (100 - level) / 200:.1f} "
            "each)"
        )
        rows = [["head", "loss +", "from", "to", "BLEU"]]
        for r in mine[:8]:
            name = f"{flag(r['type'])}:{r['layer']}" + ("" if r["head"] is None else f":{r['head']}")
            rows.append(
                [
                    name,
                    f"{r['difference']:+.4f}",
                    f"{r['low']:+.4f}",
                    f"{r['high']:+.4f}",
                    f"{r['bleu_difference']:+.2f}" if "bleu" in r else "-",
                ]
            )
        lines.append(files.table(rows))
    return "\n".join(lines)


def read(path) -> dict[str, Any]:
    """An ablation.json; UserError when it is another file."""
    data = files.read_json(path, "an ablation table")
    if not isinstance(data, dict) or not isinstance(data.get("records"), list) or "baseline" not in data:
        raise UserError(f"{path} is not a table of `analysis ablate`: it lacks 'baseline' or 'records'")
    about = data.get("provenance")
    if (
        not isinstance(data["baseline"], dict)
        or not isinstance(about, dict)
        or not (isinstance(about.get("options"), dict) and isinstance(about.get("data"), dict))
    ):
        raise UserError(
            f"{path} does not say of which options and data it is ('provenance'): make the file anew"
        )
    for number, record in enumerate(data["records"]):
        if not _whole(record):
            raise UserError(
                f"{path}: record {number} of 'records' is not one that `analysis ablate` writes: make "
                "the file anew"
            )
    return data


def _whole(record) -> bool:
    return (
        isinstance(record, dict)
        and record.get("kind") in KINDS
        and record.get("type") in ATTENTION_TYPES
        and isinstance(record.get("layer"), int)
        and isinstance(record.get("head"), (int, type(None)))
        and all(isinstance(record.get(key), (int, float)) for key in LOSS_KEYS)
    )


def by_head(data: dict[str, Any] | None, kind: str = "without") -> dict[Head, dict[str, Any]]:
    """The records of one kind by head; nothing for no table."""
    records = data["records"] if data else []
    return {Head(r["type"], r["layer"], r["head"]): r for r in records if r["kind"] == kind}
