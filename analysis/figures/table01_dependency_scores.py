"""Dependency scores: the best encoder head beside the positional baseline.

Table 1 of the paper, for every model given.
"""

from fairseq_headprune.analysis.figures import style
from fairseq_headprune.base import files


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
                        f"{100 * (m['accuracy'] - m['baseline']):+.1f}",
                        f"{m['n']:,}",
                    ]
                )
        options = table.provenance.get("options") or {}
        level = 100 * options.get("level", 0.95)
        dump = table.provenance.get("dump") or {}
        text.append(f"## {table.label}\n\n" + files.markdown(rows, left=3))
        text.append(
            f"{dump.get('sentences', '?'):,} sentences; {level:g} % bootstrap intervals over "
            "sentences. The best of many heads is chosen on the same sentences, so its accuracy "
            "is a little too high.\n"
        )
    return "\n".join(text)
