"""How figures look: the paper's colours for functions, doubled by hatches and words.

Purple positional, green syntactic, orange rare words (Figure 1c of the paper). The three differ in
lightness too, so that they stay apart in grey print and for colour-blind readers.
"""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fairseq_headprune.analysis.roles.heads import Function


class Look(NamedTuple):
    """Fill, hatch, colour of text on it, and the name in legends."""

    color: str
    hatch: str
    text: str
    name: str


FUNCTIONS = {
    "positional": Look("#6a3d9a", "", "white", "positional"),
    "syntactic": Look("#33a874", "///", "black", "syntactic"),
    "rare": Look("#fdbf6f", "...", "black", "rare words"),
}
"""Kind of `fairseq_headprune.analysis.roles.heads.Function` -> how it is drawn."""

NONE = Look("#f2f2f2", "", "#888888", "no function found")

TYPES = {
    "enc_self": dict(color="#0072b2", marker="o", linestyle="-", label="encoder self-attention"),
    "dec_self": dict(color="#d55e00", marker="s", linestyle="--", label="decoder self-attention"),
    "dec_enc": dict(color="#222222", marker="^", linestyle=":", label="decoder-encoder attention"),
}

SERIES = [
    dict(color="#0072b2", marker="o", linestyle="-"),
    dict(color="#d55e00", marker="s", linestyle="--"),
    dict(color="#009e73", marker="^", linestyle=":"),
    dict(color="#cc79a7", marker="D", linestyle="-."),
    dict(color="#222222", marker="v", linestyle="-"),
    dict(color="#e69f00", marker="P", linestyle="--"),
    dict(color="#56b4e9", marker="X", linestyle=":"),
    dict(color="#777777", marker="*", linestyle="-."),
]
"""For lines without a meaning of their own (Okabe and Ito's colours, each with its own marker)."""

BAR_HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++")

SHORT = {"h->d": "{r}→", "d->h": "→{r}"}


def relation_text(relation: str, direction: str) -> str:
    """``nsubj h->d`` in words: the syntactic head points to its dependent, or is pointed to."""
    ends = {"nsubj": ("v", "s"), "obj": ("v", "o"), "advmod": ("v", "adv"), "amod": ("n", "adj")}
    if relation in ends:
        one, two = ends[relation]
        return f"{one}→{two}" if direction == "h->d" else f"{two}→{one}"
    return SHORT[direction].format(r=relation)


def function_text(function: Function) -> str:
    """What is written on a cell: ``−1``, ``v→s``, ``rare``."""
    if function.kind == "positional":
        return function.detail.replace("-", "−")
    if function.kind == "syntactic":
        return relation_text(function.detail, function.direction)
    return "rare"


def kinds(functions: Sequence[Function]) -> list:
    """The kinds among a head's functions, each once, in the order of the legend."""
    present = {function.kind for function in functions}
    return [kind for kind in FUNCTIONS if kind in present]


def legend_patches(with_none: bool = True) -> list:
    """Handles for a legend of functions."""
    from matplotlib.patches import Patch

    looks = [*FUNCTIONS.values()] + ([NONE] if with_none else [])
    return [
        Patch(facecolor=k.color, hatch=k.hatch, edgecolor="black", linewidth=0.5, label=k.name) for k in looks
    ]


@contextmanager
def applied():
    """Settings of all figures while open."""
    import matplotlib

    settings = {
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.dpi": 100,
        "figure.constrained_layout.use": True,
        "savefig.dpi": 200,
        "hatch.linewidth": 0.4,
        "pdf.fonttype": 42,
        "lines.markersize": 4.5,
        "lines.linewidth": 1.3,
        "legend.frameon": False,
        "text.parse_math": False,  # a $ in a model's name or a token is a $
    }
    with matplotlib.rc_context(settings):
        yield
