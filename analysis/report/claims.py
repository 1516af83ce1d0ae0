"""What may be said of a head: observation, criterion, intervention and open questions kept apart.

A map or an accuracy shows a pattern in one checkpoint on one data set; only an intervention with a
measured effect says that the model depends on the head, and even that under the rule of removal used
alone. Every sentence names what it rests on.
"""

from collections.abc import Mapping
from typing import Any

from fairseq_headprune.analysis.head_table import HeadTable
from fairseq_headprune.analysis.roles.heads import Function
from fairseq_headprune.units.layout import Head, flag

OPEN = (
    "Other heads may make up for this one, so a small effect does not show that it is never used.",
    "Switching off at test time is not training without the head: weights did not adapt.",
    "In another training run the same pattern may sit in another head, or in none.",
)


def percent(share: float) -> str:
    """``93.1 %``."""
    return f"{100 * share:.1f} %"


def interval(low: float | None, high: float | None, level: float) -> str:
    """``95 % interval 92.5 to 93.7 %``."""
    if low is None or high is None:
        return "no interval"
    return f"{100 * level:g} % interval {100 * low:.1f} to {100 * high:.1f} %"


def where(table: HeadTable, head: Head) -> str:
    """The head, its checkpoint and the data: what a claim is about."""
    model = table.provenance.get("model") or {}
    dump = table.provenance.get("dump") or {}
    data = dump.get("data") or {}
    name = data.get("path") or data.get("input") or dump.get("directory") or "unnamed data"
    subset = f", subset {data['subset']}" if data.get("subset") else ""
    sha = f" (sha256 {model['sha256'][:12]})" if model.get("sha256") else ""
    return (
        f"Head {head.head} of {flag(head.type)} layer {head.layer} (both counted from 0) of the checkpoint "
        f"{model.get('file', 'unknown')}{sha}, on {dump.get('sentences', '?')} sentences of {name}{subset}."
    )


def observed(table: HeadTable, head: Head) -> list[dict[str, str]]:
    """What was seen, each with the criterion it was held against: ``{"seen", "criterion", "holds"}``
    with "yes" or "no" (or "" where there is no threshold)."""
    record = table.records[head]
    options = table.provenance.get("options") or {}
    level = options.get("level", 0.95)
    found = [_positional(record, options, level)]
    found += _syntactic(record, options, level)
    found += _rare(record, options, level)
    if record["confidence"] is not None:
        found.append(
            {
                "seen": f"The largest weight of a token is {record['confidence']:.3f} on average over "
                f"{record['confidence_n']:,} query tokens ({_plain(record, 'confidence', level)}).",
                "criterion": "Confidence: end of sentence left out as key and as query.",
                "holds": "",
            }
        )
    if record.get("relevance") is not None:
        found.append(
            {
                "seen": f"Of the relevance of its layer, {percent(record['relevance'])} is this head's, "
                f"mean of "
                f"{record['relevance_n']:,} steps ({_plain(record, 'relevance', level)}).",
                "criterion": "Layer-wise relevance propagation from the top logit, shared out over "
                "the layer's "
                "heads. It explains the output; it is no intervention.",
                "holds": "",
            }
        )
    return found


def _plain(record, name, level):
    low, high = record.get(f"{name}_low"), record.get(f"{name}_high")
    return "no interval" if low is None else f"{100 * level:g} % interval {low:.3f} to {high:.3f}"


def _positional(record, options, level):
    p = record["positional"]
    if p["share"] is None:
        return {"seen": "No query token was counted.", "criterion": "", "holds": ""}
    needed = options.get("positional_share", 0.9)
    return {
        "seen": f"The largest weight is at relative position {p['offset']:+d} for {percent(p['share'])} of "
        f"{p['n']:,} query tokens ({interval(p['low'], p['high'], level)}).",
        "criterion": f"Positional: one position for at least {percent(needed)} of tokens.",
        "holds": _yes(any(f.startswith("positional") for f in record["functions"])),
    }


def _syntactic(record, options, level):
    found = []
    for relation, directions in (record.get("syntactic") or {}).items():
        for direction, m in directions.items():
            if m["accuracy"] is None:
                continue
            to = (
                "from the syntactic head word to its dependent"
                if direction == "h->d"
                else "from the dependent to its syntactic head word"
            )
            cases = "pairs of words" if options.get("syntactic_over") == "pairs" else "words"
            seen = (
                f"{relation}, {to}: the largest weight is on the related word for {percent(m['accuracy'])} "
                f"of {m['n']:,} {cases} ({interval(m['low'], m['high'], level)}). Always taking position "
                f"{m['baseline_offset']:+d} would be right for {percent(m['baseline'])}: a gain of "
                f"{_gain(m, level)}."
            )
            if m.get("away") is not None:
                seen += (
                    f" Where the related word is not at that position: {percent(m['away'])} of "
                    f"{m['away_n']:,} ({interval(m['away_low'], m['away_high'], level)})."
                )
            found.append({"seen": seen, "criterion": _margin(m, options), "holds": _yes(m["syntactic"])})
    return found


def _gain(m, level) -> str:
    text = f"{100 * m['gain']:+.1f} points"
    if m["gain_low"] is not None:
        text += f" ({100 * level:g} % interval {100 * m['gain_low']:+.1f} to {100 * m['gain_high']:+.1f})"
    if m.get("gain_p_holm") is not None:
        text += f", p = {m['gain_p_holm']:.2g} corrected for all that was looked at"
    return text


def _margin(m, options) -> str:
    """The criterion, and whether the interval of the gain leaves any doubt about it."""
    margin, kind = options.get("margin", 0.1), options.get("margin_kind", "points")
    rule = f"{100 * margin:g} points over" if kind == "points" else f"{100 * margin:g} % better than"
    text = f"Syntactic: at least {rule} that baseline."
    if m["gain_low"] is None:
        return text
    needed = margin if kind == "points" else margin * m["baseline"]
    if m["gain_low"] < needed <= m["gain_high"]:
        return (
            f"{text} The interval of the gain holds both sides of that: other sentences may decide otherwise."
        )
    return text + (" The whole interval of the gain is above that." if m["syntactic"] else "")


def looked_at(table: HeadTable) -> str:
    """How many heads on how many relations a syntactic head was found among, and what chance gives."""
    tests = table.tests()
    level = (table.provenance.get("options") or {}).get("level", 0.95)
    known = [m for m in tests if m["gain_low"] is not None]
    text = (
        f"{len(tests):,} combinations of head, relation and direction were looked at. Were no head better "
        f"than the best position, chance would put some {len(known) * (1 - level) / 2:.0f} intervals of the "
        f"gain above 0; {sum(m['gain_low'] > 0 for m in known)} are."
    )
    corrected = [m["gain_p_holm"] for m in tests if m.get("gain_p_holm") is not None]
    if corrected:
        text += (
            " Corrected for their number (sign test over sentences, Holm, 5 %), "
            f"{sum(p < 0.05 for p in corrected)} gains remain."
        )
    return text


def alternatives(table: HeadTable) -> list[str]:
    """Other reasons why a head may look syntactic, tested or not."""
    parses = table.provenance.get("parses") or {}
    if parses.get("kind") == "stanza":
        trees = f"errors of the parser (trees are those of {parses.get('parser')})"
    else:
        trees = f"errors in the trees (those of {parses.get('file', 'the file')} are taken as right)"
    return [
        "Tested as another reason for the syntactic pattern: position, as always taking the relation's best "
        f"one. Not tested: how frequent the words are, their part of speech, {trees}.",
        looked_at(table),
    ]


def _rare(record, options, level):
    rare = record.get("rare")
    if not rare or rare["two_rarest"] is None:
        return []
    return [
        {
            "seen": f"The largest weight is on the rarest token for {percent(rare['rarest'])} and on one of "
            f"the two "
            f"rarest for {percent(rare['two_rarest'])} of {rare['n']:,} query tokens "
            f"({interval(rare['two_rarest_low'], rare['two_rarest_high'], level)}); equal weights would give "
            f"{percent(rare['two_rarest_chance'])}.",
            "criterion": f"Rare words: one of the two rarest in more than "
            f"{percent(options.get('rare_share', 0.5))}, "
            f"in sentences whose rarest token is not among the {options.get('rare_top', 500)} most frequent.",
            "holds": _yes(rare["rare"]),
        }
    ]


def _yes(value) -> str:
    return "yes" if value else "no"


def intervened(
    off: Mapping[str, Any] | None, alone: Mapping[str, Any] | None, ablation: Mapping[str, Any] | None
) -> list[str]:
    """What was changed and what happened, in sentences; one that says so when nothing was."""
    if not off:
        return [
            "Nothing was changed. What the model's output owes to this head is not known: the "
            "observations above do not show it."
        ]
    base, options = ablation["baseline"], ablation["provenance"]["options"]
    level = f"{100 * options['level']:g} % interval"
    data = ablation["provenance"]["data"]
    on = (
        f"{base['sentences']:,} sentences of {data.get('path', 'the data')}, subset {data.get('subset', '?')}"
    )
    effect = (
        "no clear effect"
        if off["low"] <= 0 <= off["high"]
        else ("worse" if off["difference"] > 0 else "better")
    )
    found = [
        f"Switched off at test time (its output is zero, nothing else changes): "
        f"loss {off['difference']:+.4f} nats "
        f"per target token ({level} {off['low']:+.4f} to {off['high']:+.4f}, paired over sentences) from "
        f"{base['loss']:.4f} on {on}: {effect}."
    ]
    if "bleu_difference" in off:
        found.append(
            f"BLEU {off['bleu_difference']:+.2f} (95 % interval {off['bleu_low']:+.2f} to "
            f"{off['bleu_high']:+.2f}) "
            f"from {base['bleu']:.2f} ({base.get('signature', 'signature unknown')})."
        )
    if alone:
        found.append(
            f"All other heads of its layer and type switched off: loss {alone['difference']:+.4f} "
            f"({level} {alone['low']:+.4f} to {alone['high']:+.4f})."
        )
    return found


def headline(functions: list[Function], off: Mapping[str, Any] | None) -> str:
    """The claim in one sentence, as strong as what was done allows and no stronger."""
    if functions:
        pattern = "shows the pattern " + ", ".join(map(str, functions))
    else:
        pattern = "shows none of the patterns looked for"
    if not off:
        return f"Observed only: this head {pattern}; its effect was not tested."
    if off["low"] > 0:
        effect = "the loss grows when it is switched off"
    elif off["high"] < 0:
        effect = "the loss falls when it is switched off"
    else:
        effect = "switching it off alone changes the loss by less than can be told from chance"
    return f"Observed and tested: this head {pattern}, and {effect}."


def claim(table: HeadTable, head: Head, off=None, alone=None, ablation=None) -> dict[str, Any]:
    """Everything that the page says of a head."""
    functions = table.functions(head)
    still_open = list(OPEN) if off else list(OPEN[2:])
    if any(function.kind == "syntactic" for function in functions):
        still_open = alternatives(table) + still_open
    return {
        "where": where(table, head),
        "headline": headline(functions, off),
        "observed": observed(table, head),
        "intervened": intervened(off, alone, ablation),
        "open": still_open,
    }
