"""``headprune page``: the tables of a results page, made from ``heads.json`` and ``ablation.json``.

A page asks for one between ``<!-- table NAME FOLDER -->`` and ``<!-- end -->``; a table that needs two
folders gets them as ``FOLDER,FOLDER``. Each function here takes folders and returns Markdown. Heads are
written layer:head.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from fairseq_headprune.analysis import head_table
from fairseq_headprune.analysis.ablation import table as ablation_table
from fairseq_headprune.analysis.ablation.function_table import function_table
from fairseq_headprune.analysis.figures.style import relation_text
from fairseq_headprune.analysis.head_table import HeadTable
from fairseq_headprune.analysis.roles import heads as roles
from fairseq_headprune.base import files, marked_tables
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, flag

KINDS = ("positional", "syntactic", "rare")
Bounds = tuple[str, str]


def tables(folder: Path) -> list[HeadTable]:
    """Every ``NAME/heads.json`` of a folder, by name; UserError when there is none."""
    found = sorted(folder.glob("*/heads.json"))
    if not found:
        raise UserError(f"{folder} has no folder with a heads.json")
    return [head_table.read(f"{path.parent.name}={path}") for path in found]


def short(head: Head) -> str:
    """``4:2``."""
    return f"{head.layer}:{head.head}"


def percent(record: Mapping[str, Any], key: str, bounds: Bounds | None = None) -> str:
    """``56.8 [55.9, 57.6]``, in percent."""
    if record[key] is None:
        return "–"
    text = f"{100 * record[key]:.1f}"
    return (
        text if bounds is None else f"{text} [{100 * record[bounds[0]]:.1f}, {100 * record[bounds[1]]:.1f}]"
    )


def signed(value: float, digits: int = 1) -> str:
    """``+8.6``, ``−0.5``."""
    return f"{value:+.{digits}f}".replace("-", "−")


def largest(table: HeadTable, value: Callable[[Mapping[str, Any]], float | None], type: str = "enc_self"):
    """The head of a type with the largest value, and its record; None when no head has one."""
    known = [
        (value(record), head, record) for head, record in table.of(type).items() if value(record) is not None
    ]
    return max(known, key=lambda item: item[0])[1:] if known else None


def sets_table(folder: Path) -> str:
    """What each set is, how many encoder heads have a function by the thresholds that its heads.json
    was made with, and how many are syntactic when the margin is taken as relative to the baseline."""
    rows = [
        [
            "set",
            "sentences",
            "words",
            "trees",
            "unaligned",
            *[f"{kind} heads" for kind in KINDS],
            "syntactic, margin relative",
        ]
    ]
    for table in tables(folder):
        counts, parses = table.provenance["counts"], table.provenance["parses"]
        how = (
            "none"
            if parses is None
            else "gold"
            if parses["kind"] == "conllu"
            else parses["parser"].split(" en:")[0]
        )
        kinds = [{f.kind for f in table.functions(head)} for head in table.of("enc_self")]
        rows.append(
            [
                table.label,
                f"{counts['sentences']:,}",
                f"{counts['words']:,}",
                how,
                counts["unaligned_sentences"],
                *[sum(kind in found for found in kinds) for kind in KINDS],
                _relative(table),
            ]
        )
    return files.markdown(rows)


def _relative(table: HeadTable) -> int:
    limits = roles.Thresholds(margin=table.provenance["options"]["margin"], margin_kind="relative")
    return sum(
        any(
            roles.is_syntactic(m["accuracy"], m["baseline"], limits)
            for directions in (record.get("syntactic") or {}).values()
            for m in directions.values()
        )
        for record in table.of("enc_self").values()
    )


def nearest_table(folder: Path) -> str:
    """The encoder head of each set that comes nearest to being positional and to being a rare-word
    head, and the most confident one."""
    rows = [
        [
            "set",
            "head",
            "at",
            "% of tokens",
            "% where it exists",
            "head",
            "% on the rarest",
            "% on the two rarest",
            "% by chance",
            "head",
            "confidence",
        ]
    ]
    for table in tables(folder):
        head, record = largest(table, lambda r: r["positional"]["share"])
        place = record["positional"]
        cells = [
            table.label,
            short(head),
            signed(place["offset"], 0),
            percent(place, "share", ("low", "high")),
            percent(place, "share_possible"),
        ]
        rare = largest(table, lambda r: (r["rare"] or {}).get("two_rarest"))
        cells += (
            ["–"] * 4
            if rare is None
            else [
                short(rare[0]),
                percent(rare[1]["rare"], "rarest", ("rarest_low", "rarest_high")),
                percent(rare[1]["rare"], "two_rarest", ("two_rarest_low", "two_rarest_high")),
                percent(rare[1]["rare"], "two_rarest_chance"),
            ]
        )
        sure = largest(table, lambda r: r["confidence"])
        rows.append(cells + ([short(sure[0]), f"{sure[1]['confidence']:.2f}"] if sure else ["–", "–"]))
    return files.markdown(rows)


def relations_table(folder: Path) -> str:
    """Per relation and direction the best encoder head of each set: accuracy, gain over the baseline."""
    made = [table for table in tables(folder) if table.relations]
    rows = [["relation", *[table.label for table in made]]]
    for relation, directions in (made[0].relations if made else {}).items():
        for direction in directions:
            cells = [f"{relation} {relation_text(relation, direction)}"]
            for table in made:
                best = table.best(relation, direction)
                cells.append(
                    "–"
                    if best is None
                    else f"{short(best[0])} {percent(best[1], 'accuracy')} "
                    f"({signed(100 * best[1]['gain'])} [{signed(100 * best[1]['gain_low'])}, "
                    f"{signed(100 * best[1]['gain_high'])}])"
                )
            rows.append(cells)
    return files.markdown(rows)


def left_table(folder: Path) -> str:
    """Pruned models side by side, most encoder heads first: which are left, and the best of them at
    each thing, whether it passes the threshold (bold) or not."""
    made = sorted(tables(folder), key=lambda table: -len(table.of("enc_self")))
    asked = [(r, d) for r, d in (("nsubj", "h->d"), ("obj", "d->h")) if all(t.relations for t in made)]
    rows = [
        [
            "model",
            "encoder heads",
            "positional",
            *[f"{r} {relation_text(r, d)}" for r, d in asked],
            "two rarest",
            "confidence",
        ]
    ]
    for table in made:
        heads = list(table.of("enc_self"))
        bold = lambda yes, text: f"**{text}**" if yes else text  # noqa: E731
        has = lambda head, kind, of=table.functions: any(f.kind == kind for f in of(head))  # noqa: E731
        where, record = largest(table, lambda r: r["positional"]["share"])
        cells = [
            table.label,
            len(heads),
            bold(
                has(where, "positional"),
                f"{short(where)} at "
                f"{signed(record['positional']['offset'], 0)} {percent(record['positional'], 'share')}",
            ),
        ]
        for relation, direction in asked:
            head, m = table.best(relation, direction)
            cells.append(
                bold(m["syntactic"], f"{short(head)} {percent(m, 'accuracy')} ({signed(100 * m['gain'])})")
            )
        rare = largest(table, lambda r: (r["rare"] or {}).get("two_rarest"))
        cells.append(
            "–"
            if rare is None
            else bold(has(rare[0], "rare"), f"{short(rare[0])} {percent(rare[1]['rare'], 'two_rarest')}")
        )
        sure = largest(table, lambda r: r["confidence"])
        rows.append([*cells, f"{short(sure[0])} {sure[1]['confidence']:.2f}"])
    return files.markdown(rows)


def correlation_table(heads: Path, ablation: Path) -> str:
    """Spearman's rank correlations over the heads of a type: relevance, confidence, loss when off."""
    table = head_table.read(str(heads / "heads.json"))
    off = ablation_table.by_head(ablation_table.read(ablation / "ablation.json"))
    rows = [
        [
            "type",
            "heads",
            "relevance and confidence",
            "relevance and loss without the head",
            "confidence and loss without the head",
        ]
    ]
    for type in table.types():
        known = [
            (r["relevance"], r["confidence"], off[h]["difference"])
            for h, r in table.of(type).items()
            if r["relevance"] is not None and r["confidence"] is not None and h in off
        ]
        if len(known) > 2:
            relevance, confidence, loss = zip(*known)
            pairs = ((relevance, confidence), (relevance, loss), (confidence, loss))
            rows.append([flag(type), len(known), *[signed(spearmanr(*pair).statistic, 2) for pair in pairs]])
    return files.markdown(rows)


def _records(folder: Path) -> list[dict[str, Any]]:
    return ablation_table.read(folder / "ablation.json")["records"]


def _change(record, key="difference", low="low", high="high", digits=4) -> str:
    return f"{signed(record[key], digits)} [{signed(record[low], digits)}, {signed(record[high], digits)}]"


def _name(record) -> str:
    return f"{record['layer']}" if record["head"] is None else f"{record['layer']}:{record['head']}"


def off_table(folder: Path, kind: str, most: int = 3) -> str:
    """How many interventions of a kind change the loss, by type, and the largest changes."""
    rows = [
        ["type", "heads", "loss larger", "smaller", "not told from chance", "largest changes (layer:head)"]
    ]
    for type in ATTENTION_TYPES:
        mine = sorted(
            (r for r in _records(folder) if r["kind"] == kind and r["type"] == type),
            key=lambda r: -abs(r["difference"]),
        )
        if mine:
            more, less = sum(r["low"] > 0 for r in mine), sum(r["high"] < 0 for r in mine)
            rows.append(
                [
                    flag(type),
                    len(mine),
                    more,
                    less,
                    len(mine) - more - less,
                    ", ".join(f"{signed(r['difference'], 4)} ({_name(r)})" for r in mine[:most]),
                ]
            )
    return files.markdown(rows)


def without_table(folder: Path) -> str:
    """`off_table` of single heads."""
    return off_table(folder, "without")


def _types(records) -> list[str]:
    """The attention types that records are about."""
    return [t for t in ATTENTION_TYPES if any(r["type"] == t for r in records)]


def alone_table(folder: Path) -> str:
    """A head alone in its layer, beside the layer without any: least and most loss, by layer."""
    records = _records(folder)
    types = _types(records)
    rows = [
        [
            "layer",
            *[f"{flag(t)}: {c}" for t in types for c in ("none left", "one left, best", "worst")],
        ]
    ]
    layers = sorted({r["layer"] for r in records if r["kind"] == "alone"}, reverse=True)
    for layer in layers:
        cells = [layer]
        for type in types:
            mine = [r for r in records if r["layer"] == layer and r["type"] == type]
            whole = next((r for r in mine if r["kind"] == "layer"), None)
            alone = sorted((r for r in mine if r["kind"] == "alone"), key=lambda r: r["difference"])
            cells.append("–" if whole is None else signed(whole["difference"], 3))
            cells += (
                [f"{signed(r['difference'], 3)} ({r['head']})" for r in (alone[0], alone[-1])]
                if alone
                else ["–"] * 2
            )
        rows.append(cells)
    return files.markdown(rows)


def layers_table(folder: Path) -> str:
    """Whole layers off: change of the loss, highest layer first."""
    found = {(r["layer"], r["type"]): r for r in _records(folder) if r["kind"] == "layer"}
    types = _types(_records(folder))
    rows = [["layer", *map(flag, types)]]
    for layer in sorted({layer for layer, _ in found}, reverse=True):
        rows.append(
            [
                layer,
                *[_change(found[layer, t], digits=3) if (layer, t) in found else "–" for t in types],
            ]
        )
    return files.markdown(rows)


def bleu_table(folder: Path) -> str:
    """The heads that were switched off for translation, largest change of BLEU first."""
    found = [r for r in _records(folder) if r.get("bleu_difference") is not None]
    rows = [["head off", "loss", "BLEU", "p"]]
    for r in sorted(found, key=lambda r: r["bleu_difference"]):
        rows.append(
            [
                f"{flag(r['type'])} {_name(r)}",
                _change(r),
                _change(r, "bleu_difference", "bleu_low", "bleu_high", 2),
                f"{r['bleu_p']:.3f}",
            ]
        )
    return files.markdown(rows)


TABLES: Mapping[str, Callable[..., str]] = {
    "roles-sets": sets_table,
    "roles-nearest": nearest_table,
    "roles-relations": relations_table,
    "roles-left": left_table,
    "roles-correlation": correlation_table,
    "off-without": without_table,
    "off-alone": alone_table,
    "off-layers": layers_table,
    "off-bleu": bleu_table,
    "off-function": function_table,
}


def make_table(name: str, source: str, folder: Path) -> str:
    """The table of this name; the folders that ``source`` names lie in ``folder``.

    UserError for a table that does not exist, or a wrong number of folders.
    """
    folders = [folder / part for part in source.split(",")]
    if name not in TABLES:
        raise UserError(f"the page asks for a table '{name}': there are {', '.join(TABLES)}")
    if len(folders) != (wanted := 2 if name == "roles-correlation" else 1):
        raise UserError(f"table {name} is made from {wanted} folder(s), but the page names {source}")
    return TABLES[name](*folders)


def add_arguments(parser):
    """Options of the command."""
    parser.add_argument(
        "page",
        type=Path,
        help=f"Markdown file with <!-- table NAME FOLDER --> ... <!-- end -->; names: {', '.join(TABLES)}",
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail when the page is not what its files say"
    )


def run(args):
    """Run the command."""
    marked_tables.update(
        args.page,
        lambda name, source: make_table(name, source, args.page.parent),
        args.check,
        "headprune page",
    )
