"""Dependency scores: the best encoder head beside the positional baseline.

Table 1 of the paper, for every model given.
"""

from fairseq_headprune.analysis.figures import style
from fairseq_headprune.base import files

DISTANCES = ("1", "2", "3-4", "5-8", "9+")
"""Distances of related words, in words, as heads.json tells them apart."""


def draw(inputs):
    """Markdown."""
    text = ["# Table 1: dependency scores, the best encoder head beside a positional baseline\n"]
    for table in inputs.syntax():
        rows = [
            [
                "relation",
                "direction",
                "best head (layer:head)",
                "accuracy, %",
                "interval, %",
                "baseline, %",
                "at position",
                "gain, points",
                "p",
                "elsewhere, %",
                f"at distance {' / '.join(DISTANCES)}, %",
                "n",
            ]
        ]
        for relation, directions in table.relations.items():
            for direction in directions:
                best = table.best(relation, direction)
                if best is None:
                    continue
                head, m = best
                rows.append(
                    [
                        relation,
                        style.relation_text(relation, direction),
                        f"{head.layer}:{head.head}",
                        f"{100 * m['accuracy']:.1f}",
                        f"{100 * m['low']:.1f} – {100 * m['high']:.1f}",
                        f"{100 * m['baseline']:.1f}",
                        f"{m['baseline_offset']:+d}",
                        _gain(m),
                        "–" if m.get("gain_p_holm") is None else f"{m['gain_p_holm']:.2g}",
                        "–" if m.get("away") is None else f"{100 * m['away']:.1f}",
                        _by_distance(m),
                        f"{m['n']:,}",
                    ]
                )
        options = table.provenance.get("options") or {}
        level = 100 * options.get("level", 0.95)
        dump = table.provenance.get("dump") or {}
        cases = "pairs of words" if options.get("syntactic_over") == "pairs" else "words"
        text.append(f"## {table.label}\n\n" + files.markdown(rows, left=3))
        text.append(
            f"{dump.get('sentences', '?'):,} sentences; {level:g} % bootstrap intervals over sentences. "
            f"n counts {cases}; p is that of the gain by a sign test over sentences, corrected by "
            f"Holm for all {len(table.tests()):,} combinations of head, relation and direction; elsewhere: "
            "accuracy where the related word is not at the baseline's position. The best of many heads is "
            "chosen on the same sentences, so its accuracy is a little too high.\n"
        )
    return "\n".join(text)


def _by_distance(m) -> str:
    found = m.get("by_distance") or {}
    shares = [found.get(distance) for distance in DISTANCES]
    return " / ".join("–" if share is None else f"{100 * share:.0f}" for share in shares)


def _gain(m) -> str:
    gain = f"{100 * m['gain']:+.1f}"
    return (
        gain if m["gain_low"] is None else f"{gain} [{100 * m['gain_low']:+.1f}, {100 * m['gain_high']:+.1f}]"
    )
