"""BLEU with gates in all attentions: heads left per type, pruned model and from scratch.

Table 2 of the paper; intervals are of paired differences. A control is the whole model trained as
long and in the same way, without the penalty.
"""

from fairseq_headprune.analysis.figures.inputs import Missing, comparable
from fairseq_headprune.base import files
from fairseq_headprune.units.layout import flag


def _difference(compared):
    if not compared:
        return ""
    return f"{compared['difference']:+.2f} ({compared['low']:+.2f} … {compared['high']:+.2f})"


def title(point):
    """What the table calls a model."""
    names = {"baseline": "whole model, as it came", "control": f"whole model, trained on ({point.name})"}
    return names.get(point.method, point.name)


def rows(points):
    """Cells, a row a model: whole model and control first, then fewer and fewer heads."""
    types = points[0].layout.types
    scratch = {p.layout.to_json(): p for p in points if p.method == "scratch"}
    found = [
        [
            "model",
            *map(flag, types),
            "all",
            "BLEU",
            "to its control",
            "to the model as it came",
            "from scratch",
        ]
    ]
    first = [p for p in points if p.method in ("baseline", "control")]
    for point in sorted(first, key=lambda p: p.method) + [p for p in points if p.gated]:
        same = scratch.get(point.layout.to_json())
        found.append(
            [
                title(point),
                *[str(point.heads[t]) for t in types],
                str(len(point.layout)),
                f"{point.bleu:.2f}",
                _difference(point.against_control()),
                _difference(point.compared.get("baseline")),
                f"{same.bleu:.2f}" if same else "",
            ]
        )
    return found


def draw(inputs):
    """Markdown."""
    points = comparable(inputs.sweep("all"))["together"]
    if not any(p.gated for p in points):
        raise Missing("points of the setting 'all'")
    tests = ", ".join(points[0].tests)
    signature = points[0].scores["together"].get("signature", "")
    return (
        "# Table 2: BLEU with gates in all attentions\n\n"
        + files.markdown(rows(points))
        + f"\nTest sets together ({tests}); sacreBLEU {signature}.\n"
    )
