"""Where the dependent stands relative to its syntactic head, per relation, in words.

Figure 3 of the paper. Its highest bar is the baseline that a syntactic head must beat.
"""

from matplotlib import pyplot

REACH = 6


def shares(histogram, reach=REACH):
    """Relative position -> share of all pairs; what lies further out is added up at the ends."""
    total = sum(histogram.values()) or 1
    found = {offset: 0.0 for offset in range(-reach, reach + 1) if offset}
    for offset, count in histogram.items():
        found[max(-reach, min(reach, int(offset)))] += count / total
    return found


def draw(inputs):
    """A panel a relation."""
    table = inputs.syntax()[0]
    relations = list(table.relations)
    figure, panels = pyplot.subplots(
        1, len(relations), figsize=(1.9 * len(relations), 2.1), sharey=True, squeeze=False
    )
    for axes, relation in zip(panels[0], relations):
        found = table.relations[relation]["h->d"]
        bars = shares(found["histogram"])
        axes.bar(list(bars), list(bars.values()), color="#0072b2", edgecolor="black", linewidth=0.4)
        ends = {-REACH: f"≤−{REACH}", REACH: f"≥{REACH}"}
        ticks = [-REACH, -3, -1, 1, 3, REACH]
        axes.set_xticks(ticks, [ends.get(t, f"{t:+d}".replace("-", "−")) for t in ticks], fontsize=6)
        axes.set_title(f"{relation} ({found['pairs']:,})")
        axes.set_xlabel("position of the dependent")
    panels[0][0].set_ylabel("share of pairs")
    figure.suptitle(f"{table.label}", fontsize=8)
    return figure
