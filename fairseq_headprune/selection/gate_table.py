"""What the gates of a checkpoint say, for people and for programs."""

from dataclasses import replace
from typing import Any

import torch

from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.nn.gate_report import count
from fairseq_headprune.units import gates
from fairseq_headprune.units.layout import ATTENTION_TYPES, Head, flag


def gate_table(state: dict[str, Any]) -> dict[Head, float]:
    """P(open) of every gated head of a checkpoint."""
    layout, options = checkpoints.existing_layout(state), checkpoints.gate_options(state)
    table = {}
    for (key, layer), log_a in checkpoints.log_alphas(state).items():
        for head, p in zip(layout[key][layer], gates.p_open(log_a, **options).tolist()):
            table[Head(key, layer, head)] = p
    return table


def gate_counts(state: dict[str, Any]) -> dict[str, Any]:
    """GateCounts per type that has gates."""
    options, acting = checkpoints.gate_options(state), checkpoints.open_layout(state).counts()
    found: dict[str, list] = {}
    for (key, _), log_a in checkpoints.log_alphas(state).items():
        found.setdefault(key, []).append(log_a)
    counts = {t: count(torch.cat(found[t]), **options) for t in ATTENTION_TYPES if t in found}
    return {t: replace(c, acting=acting[t]) for t, c in counts.items()}


def describe(state: dict[str, Any]) -> str:
    """Text for people: the layout, P(open) per head, and the counts per type."""
    whole = checkpoints.whole_layout(state)
    lines = ["heads that act in evaluation:", checkpoints.open_layout(state).table(whole)]
    table = gate_table(state)
    if not table:
        return "\n".join(lines + ["", "the checkpoint has no gates"])
    lines += ["", "P(open) per head:"]
    for key in ATTENTION_TYPES:
        for layer in range(len(whole[key])):
            row = [(h, p) for h, p in table.items() if (h.type, h.layer) == (key, layer)]
            if row:
                cells = "  ".join(f"{h.head}: {p:.3f}" for h, p in row)
                lines.append(f"  {flag(key)} layer {layer}   {cells}")
    lines += ["", "type      gates  open  closed  undecided  acting"]
    for key, c in gate_counts(state).items():
        total = c.open + c.closed + c.undecided
        lines.append(f"{flag(key):8}  {total:5}  {c.open:4}  {c.closed:6}  {c.undecided:9}  {c.acting:6}")
    return "\n".join(lines)


def as_json(state: dict[str, Any]) -> dict[str, Any]:
    """The same for programs: ``layout``, ``p_open`` by head, ``counts`` by type."""
    return {
        "layout": checkpoints.open_layout(state).to_dict(),
        "p_open": {str(h): round(p, 6) for h, p in gate_table(state).items()},
        "counts": {flag(t): vars(c) for t, c in gate_counts(state).items()},
    }
