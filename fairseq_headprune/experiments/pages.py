"""Tables of a results page, made from the points' JSON files and put between its markers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.experiments import pareto
from fairseq_headprune.experiments.points import control_in

Result = dict[str, Any]


NAMES = {"enc_self": "enc", "dec_self": "dec", "dec_enc": "dec-enc"}


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(str(c).replace("|", "\\|") for c in row) + " |" for row in rows)


def _heads(result: Result) -> list[str]:
    return [str(n) for n in pareto.heads(result).values()]


def _types(results: Iterable[Result]) -> dict[str, str]:
    """Attention types that the models have, and their short names."""
    layout = next(iter(results), {"layout": NAMES})["layout"]
    return {t: name for t, name in NAMES.items() if layout[t]}


def _bleu(result: Result, test: str) -> str:
    return f"{result['scores'][test]['bleu']:.2f}" if test in result["scores"] else ""


def _sets(results: Sequence[Result]) -> list[str]:
    """Test sets in the order of the point that has most."""
    return list(max((pareto.tests_of(r) for r in results), key=len, default=()))


def main_table(results: Mapping[str, Result]) -> str:
    """Every point: heads per type, BLEU per set, differences with intervals, size."""
    tests = _sets(list(results.values()))
    lines = []
    for row in pareto.rows(list(results.values())):
        r = row["result"]
        everything = list(pareto.tests_of(r)) == tests
        lines.append(
            [
                ("**" + r["name"] + "**") if row["front"] else r["name"],
                *_heads(r),
                str(r["heads_in_all"]),
                *[_bleu(r, t) for t in tests],
                _bleu(r, "together") if everything else "",
                pareto.difference(r, row["control"]),
                pareto.difference(r, "baseline"),
                f"{r['valid']['loss']:.3f}" if r["valid"] else "",
                f"{r['parameters']:,}",
                f"{r['bytes']:,}",
                str(r["updates_in_all"]),
            ]
        )
    header = [
        "model",
        *_types(results.values()).values(),
        "all",
        *tests,
        "together",
        "to control [95 %]",
        "to baseline [95 %]",
        "valid loss",
        "parameters",
        "bytes",
        "updates",
    ]
    return markdown(header, lines)


def length_table(results: Mapping[str, Result]) -> str:
    """BLEU by words of the source, all test sets together."""
    shown = [
        row["result"]
        for row in pareto.rows(list(results.values()))
        if len(pareto.tests_of(row["result"])) == len(_sets(list(results.values())))
    ]
    classes: list[tuple] = []
    for r in shown:
        classes += [key for c in r["by_source_length"] if (key := (c["over"], c["up_to"])) not in classes]
    sizes = {(c["over"], c["up_to"]): c["sentences"] for r in shown for c in r["by_source_length"]}
    lines = []
    for r in shown:
        found = {(c["over"], c["up_to"]): c["bleu"] for c in r["by_source_length"]}
        lines.append(
            [r["name"], str(r["heads_in_all"]), *[f"{found[k]:.2f}" if k in found else "" for k in classes]]
        )
    names = [f"{low + 1} to {high}" if high else f"over {low}" for low, high in classes]
    header = ["model", "heads", *[f"{n} words ({sizes[k]})" for n, k in zip(names, classes)]]
    return markdown(header, lines)


def elsewhere_table(results: Mapping[str, Result]) -> str:
    """chrF2 and BLEU on sets of another domain."""
    lines = []
    for row in pareto.rows(list(results.values())):
        r = row["result"]
        for name, s in r.get("elsewhere", {}).items():
            lines.append(
                [
                    r["name"],
                    str(r["heads_in_all"]),
                    name,
                    s["sentences"],
                    f"{s['chrf']:.2f}",
                    f"{s['bleu']:.2f}",
                ]
            )
    return markdown(["model", "heads", "set", "sentences", "chrF2", "BLEU"], lines)


def functions_table(results: Mapping[str, Result]) -> str:
    """How many encoder heads with each function are left, of the models that were analysed."""
    analysed = [
        row["result"] for row in pareto.rows(list(results.values())) if row["result"]["functions"] is not None
    ]
    names: list[str] = []
    counts = []
    for r in analysed:
        found: dict[str, int] = {}
        for head in r["functions"]:
            if head["type"] == "enc_self":
                for text in head["functions"] or ["none"]:
                    found[text] = found.get(text, 0) + 1
        names += sorted(n for n in found if n not in names)
        counts.append(found)
    lines = [
        [r["name"], r["heads"]["enc_self"], *[found.get(n, 0) for n in names]]
        for r, found in zip(analysed, counts)
    ]
    return markdown(["model", "encoder heads", *names], lines)


def layer_table(results: Mapping[str, Result]) -> str:
    """Heads left per layer of every pruned model that gates chose."""
    lines = []
    for row in pareto.rows(list(results.values())):
        r = row["result"]
        if r["method"] in ("l0", "l0-target", "keep"):
            cells = [
                " ".join(str(len(layer)) for layer in layers) for layers in r["layout"].values() if layers
            ]
            lines.append([r["name"], *cells])
    first, *others = _types(results.values()).values()
    return markdown(["model", f"{first}, layers 0 to 5", *others], lines)


def encoder_heads_table(results: Mapping[str, Result], most: int = 15) -> str:
    """Which encoder heads (layer:head) are left, of models that have at most ``most`` of them."""
    lines = []
    for row in pareto.rows(list(results.values())):
        r = row["result"]
        if 0 < r["heads"]["enc_self"] <= most:
            names = [f"{i}:{h}" for i, layer in enumerate(r["layout"]["enc_self"]) for h in layer]
            lines.append([r["name"], " ".join(names)])
    return markdown(["model", "encoder heads"], lines)


def gates_table(results: Mapping[str, Result]) -> str:
    """How decided the gates were when the heads were removed."""
    lines = []
    for r in results.values():
        for key, c in (r["gates"] or {}).items():
            lines.append(
                [
                    r["name"],
                    f"{r['l0_lambda']:g}" if r["l0_lambda"] else r["target"],
                    key,
                    c["acting"],
                    c["open"],
                    c["closed"],
                    c["undecided"],
                ]
            )
    return markdown(["model", "lambda or target", "type", "acting", "open", "closed", "undecided"], lines)


def provenance_table(results: Mapping[str, Result]) -> str:
    """Signatures, versions and machine, each with the models it holds for."""

    def same(get: Callable[[Result], str], label: str) -> list[list[str]]:
        found: dict[str, list[str]] = {}
        for r in results.values():
            found.setdefault(get(r), []).append(r["name"])
        return [
            [label, value, "all models" if len(found) == 1 else ", ".join(names)]
            for value, names in found.items()
        ]

    first = lambda r: next(iter(r["scores"].values()))  # noqa: E731
    pairs = lambda d: ", ".join(f"{k} {v}" for k, v in d.items())  # noqa: E731
    lines = same(lambda r: first(r)["signature"], "BLEU")
    lines += same(lambda r: first(r)["chrf_signature"], "chrF2")
    lines += same(lambda r: pairs(r["versions"]), "versions")
    lines += same(lambda r: pairs(r["machine"]), "machine")
    hours = sum(sum(r["seconds"].values()) for r in results.values()) / 3600
    lines.append(["wall clock, all steps", f"{hours:.1f} hours", "all models"])
    return markdown(["what", "value", "models"], lines)


PAPER = (
    ("enc", (10, 48, 48), -0.15, "WMT EN-RU, abstract"),
    ("enc", (4, 48, 48), -0.25, "OpenSubtitles EN-RU, section 6.2"),
    ("all", (14, 31, 30), 0.02, "WMT EN-RU, Table 2"),
    ("all", (12, 21, 25), -0.24, "WMT EN-RU, Table 2"),
    ("all", (8, 13, 15), -0.54, "WMT EN-RU, Table 2"),
    ("all", (5, 9, 12), -0.70, "WMT EN-RU, Table 2"),
)
"""Published: setting, heads (encoder, decoder, decoder-encoder), BLEU less that of the whole model."""


def paper_table(results: Mapping[str, Result]) -> str:
    """Voita et al. (2019) beside the best pruned point of ours that has no more heads; where all have
    more, beside the one with fewest."""
    lines = []
    for setting, heads, change, where in PAPER:
        ours = [
            r
            for r in results.values()
            if r["setting"] == setting and r["method"] in ("l0", "l0-target", "keep")
        ]
        near = min(
            ours,
            default=None,
            key=lambda r: (max(r["heads_in_all"] - sum(heads), 0), -r["scores"]["together"]["bleu"]),
        )
        cells = [where, "/".join(map(str, heads)), f"{change:+.2f}"]
        if near:
            control = control_in(near["method"], near["compared"])
            cells += [
                near["name"],
                "/".join(_heads(near)),
                pareto.difference(near, control),
                pareto.difference(near, "baseline"),
            ]
        lines.append(cells + [""] * (7 - len(cells)))
    header = [
        "paper",
        "heads",
        "BLEU lost or won",
        "ours, no more heads",
        "heads",
        "to control [95 %]",
        "to baseline [95 %]",
    ]
    return markdown(header, lines)


PAPER_FROM_SCRATCH = (
    ((14, 31, 30), 29.62, 29.47),
    ((12, 21, 25), 29.36, 28.95),
    ((8, 13, 15), 29.06, 28.56),
    ((5, 9, 12), 28.90, 28.41),
)
"""Published: heads, BLEU of the pruned model and of one from scratch (WMT EN-RU, Table 2)."""


def scratch_table(results: Mapping[str, Result]) -> str:
    """Models trained from scratch beside the pruned ones of the same heads; below them the paper's."""
    lines = []
    for row in pareto.rows(list(results.values())):
        r = row["result"]
        for pruned in (results[name] for name in pareto.same_heads(r, results)):
            both = [
                x
                for m in (pruned, r)
                for x in (
                    str(m["updates_in_all"]),
                    f"{m['valid']['loss']:.3f}",
                    f"{m['scores']['together']['bleu']:.2f}",
                )
            ]
            lines.append([pruned["name"], "/".join(_heads(r)), *both, pareto.difference(r, pruned["name"])])
    for heads, pruned, new in PAPER_FROM_SCRATCH:
        lines.append(
            [
                "paper, WMT EN-RU, Table 2",
                "/".join(map(str, heads)),
                "",
                "",
                f"{pruned:.2f}",
                "",
                "",
                f"{new:.2f}",
                f"{new - pruned:+.2f}",
            ]
        )
    header = [
        "same heads as",
        "heads",
        "pruned: updates since the baseline",
        "valid loss",
        "BLEU",
        "from scratch: updates",
        "valid loss",
        "BLEU",
        "from scratch less pruned [95 %]",
    ]
    return markdown(header, lines)


TABLES: dict[str, Callable[[Mapping[str, Result]], str]] = {
    "main": main_table,
    "paper": paper_table,
    "scratch": scratch_table,
    "length": length_table,
    "elsewhere": elsewhere_table,
    "functions": functions_table,
    "layers": layer_table,
    "encoder-heads": encoder_heads_table,
    "gates": gates_table,
    "provenance": provenance_table,
}


def make_table(name: str, results: Mapping[str, Result]) -> str:
    """The table of this name, of these points; UserError when there is no such table."""
    if name not in TABLES:
        raise UserError(f"the page asks for a table '{name}': there are {', '.join(TABLES)}, benchmark")
    return TABLES[name](results)
