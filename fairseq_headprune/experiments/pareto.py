"""Compare the finished points of a sweep: paired bootstrap, Pareto front, table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_headprune.base.steps import read_json, write_json
from fairseq_headprune.experiments.points import control_in
from fairseq_headprune.translation import scoring

Result = dict[str, Any]


def front(points: Sequence[tuple[int, float]]) -> list[int]:
    """Indices of the (heads, BLEU) pairs that no other beats: none has as few heads and as much
    BLEU, one of them better."""
    return [
        i
        for i, (heads, bleu) in enumerate(points)
        if not any(h <= heads and b >= bleu and (h, b) != (heads, bleu) for h, b in points)
    ]


def load(out: Path) -> dict[str, Result]:
    """Name -> result of every finished point of a sweep, or of every JSON file of a results folder."""
    files = sorted(Path(out).glob("*/result.json")) or sorted(Path(out).glob("*.json"))
    found = [read_json(path) for path in files]
    return {r["name"]: r for r in found if isinstance(r, dict) and "method" in r}


def control_of(result: Mapping[str, Any], results: Mapping[str, Result]) -> str | None:
    """The control that a point is compared with: same setting, number of updates, learning rates and
    batch size; the same seed if there is one, else another. None for models that were not
    fine-tuned or have no such control."""
    if result["method"] in ("baseline", "control", "scratch") or not result["updates_in_all"]:
        return None
    controls = [r for r in results.values() if r["method"] == "control" and _recipe(r) == _recipe(result)]
    controls.sort(key=lambda r: (r["seed"] != result["seed"], r["seed"]))
    return controls[0]["name"] if controls else None


def _recipe(result: Mapping[str, Any]) -> tuple:
    budget = result.get("budget", {})
    same = ("lr", "settle_lr", "max_tokens", "label_smoothing", "extra")
    return result["setting"], result["updates_in_all"], tuple(str(budget.get(k)) for k in same)


def same_heads(result: Mapping[str, Any], results: Mapping[str, Result]) -> list[str]:
    """Of a model from scratch, the fine-tuned models that have exactly its heads; of others, none."""
    if result["method"] != "scratch":
        return []
    return [
        name
        for name, r in results.items()
        if r["layout"] == result["layout"] and r["method"] != "scratch" and r["updates_in_all"]
    ]


def paired_on_common_tests(own: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Paired bootstrap over the sentences of all test sets that both have translated, None without
    one. The arguments are what a run folder's translations.json holds."""
    tests = [name for name in own if name in theirs]
    if not tests:
        return None
    columns = [
        [line for name in tests for line in translations[name][key]]
        for translations, key in ((own, "hypotheses"), (theirs, "hypotheses"), (own, "references"))
    ]
    return {**scoring.paired(*columns), "tests": tests}


def compare(out: Path, results_folder: Path | None = None) -> str:
    """Add to every point of OUT how it compares, test sets together, with the baseline and with its
    control, or from scratch with the pruned models of the same heads; returns the table.
    Comparisons made before are kept."""
    results = load(out)
    for name, result in results.items():
        others = [control_of(result, results)]
        others += same_heads(result, results)
        others += ["baseline"] if "baseline" in results and name != "baseline" else []
        missing = [o for o in others if o and o not in result["compared"]]
        if missing:
            own = read_json(Path(out) / name / "translations.json")
            for other in missing:
                theirs = read_json(Path(out) / other / "translations.json")
                found = paired_on_common_tests(own, theirs)
                if found:
                    result["compared"][other] = found
            write_json(result, Path(out) / name / "result.json")
        if results_folder:
            write_json(result, Path(results_folder) / f"{name}.json")
    return table(list(results.values()))


def tests_of(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the test sets that a point was scored on."""
    return tuple(n for n in result["scores"] if n != "together")


def rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """What the table shows of each point, most heads first. The Pareto front of each setting is
    marked; only points scored on all of the sweep's test sets can be on it."""
    most = max((tests_of(r) for r in results), key=len, default=())
    shown = []
    for setting in ("enc", "all"):
        chosen = [r for r in results if r["setting"] == setting or r["method"] == "baseline"]
        whole = [r for r in chosen if tests_of(r) == most]
        on_front = front([(r["heads_in_all"], r["scores"]["together"]["bleu"]) for r in whole])
        best = {whole[i]["name"] for i in on_front}
        for r in chosen:
            if r["method"] == "baseline" and setting == "enc":
                continue
            shown.append(
                {"result": r, "front": r["name"] in best, "control": control_in(r["method"], r["compared"])}
            )
    order = {"baseline": 0, "enc": 1, "all": 2}
    shown.sort(
        key=lambda row: (
            order["baseline" if row["result"]["method"] == "baseline" else row["result"]["setting"]],
            -row["result"]["heads_in_all"],
            row["result"]["name"],
        )
    )
    return shown


def difference(result: Result, other: str | None) -> str:
    """``-0.12 [-0.50, 0.25]``, or nothing when it was not compared with that."""
    found = result["compared"].get(other) if other else None
    return f"{found['difference']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]" if found else ""


def heads(result: Result) -> dict[str, int]:
    """Heads by type, of the types that the model has."""
    return {t: result["heads"][t] for t, layers in result["layout"].items() if layers}


LETTERS = {"enc_self": "e", "dec_self": "d", "dec_enc": "x"}


def table(results: Sequence[Result]) -> str:
    """The table that a sweep ends with."""
    letters = "/".join(LETTERS[t] for r in results[:1] for t in heads(r))
    lines = [
        (
            "",
            "point",
            f"heads {letters}",
            "all",
            "sets",
            "BLEU",
            "to control",
            "to baseline",
            "loss",
            "parameters",
        )
    ]
    for row in rows(results):
        r = row["result"]
        lines.append(
            (
                "*" if row["front"] else "",
                r["name"],
                "/".join(map(str, heads(r).values())),
                str(r["heads_in_all"]),
                str(len(tests_of(r))),
                f"{r['scores']['together']['bleu']:.2f}",
                difference(r, row["control"]),
                difference(r, "baseline"),
                f"{r['valid']['loss']:.3f}" if r["valid"] else "",
                f"{r['parameters']:,}",
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines]
    return "\n".join(text + ["* on the Pareto front of its setting (fewer heads, more BLEU)"])
