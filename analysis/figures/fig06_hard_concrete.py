"""The Hard Concrete distribution of a gate: undecided, mostly open, mostly closed.

Figure 6 of the paper, whose panels have p(0), p(1) = .23, .23; .04, .69; .86, .01: those are log
alpha 0, 2 and -3 at temperature 0.5. Computed, from no table.
"""

import numpy as np
from matplotlib import pyplot

TEMPERATURE, LOW, HIGH = 0.5, -0.1, 1.1
LOG_ALPHAS = (0.0, 2.0, -3.0)


def cumulative(g, log_a, temperature=TEMPERATURE, low=LOW, high=HIGH):
    """P(stretched variable <= g): what lies below 0 and above 1 is moved to the ends."""
    s = (np.asarray(g, dtype=float) - low) / (high - low)
    return 1 / (1 + np.exp(log_a - temperature * (np.log(s) - np.log1p(-s))))


def density(g, log_a, temperature=TEMPERATURE, low=LOW, high=HIGH):
    """Derivative of `cumulative`, the density between 0 and 1."""
    s = (np.asarray(g, dtype=float) - low) / (high - low)
    q = cumulative(g, log_a, temperature, low, high)
    return q * (1 - q) * temperature / (s * (1 - s)) / (high - low)


def ends(log_a, temperature=TEMPERATURE, low=LOW, high=HIGH):
    """(P(g = 0), P(g = 1))."""
    return (
        float(cumulative(0.0, log_a, temperature, low, high)),
        1 - float(cumulative(1.0, log_a, temperature, low, high)),
    )


def draw(inputs):
    """A panel each; bars at the ends are probabilities, the line between is a density."""
    figure, panels = pyplot.subplots(1, 3, figsize=(6.6, 2.1), sharey=True)
    inside = np.linspace(0.0, 1.0, 301)
    for axes, log_a, name in zip(panels, LOG_ALPHAS, ("undecided", "mostly open", "mostly closed")):
        zero, one = ends(log_a)
        values = density(inside, log_a)
        axes.fill_between(inside, values, color="#9ecae1", linewidth=0)
        axes.plot(inside, values, color="#0072b2", label="density between 0 and 1")
        axes.bar(
            [0, 1],
            [zero, one],
            width=0.06,
            color="#d55e00",
            edgecolor="black",
            linewidth=0.4,
            label="probability of exactly 0 or 1",
            zorder=3,
        )
        for x, p, side in ((0, zero, "left"), (1, one, "right")):
            text = f"p({x}) = {p:.2f}".replace("0.", ".")
            axes.text(x + (0.06 if x == 0 else -0.06), max(p + 0.03, 0.1), text, ha=side, fontsize=7)
        axes.set_title(f"{name}: log α = {log_a:g}".replace("-", "−"))
        axes.set_xlabel("gate")
        axes.set_xlim(-0.08, 1.08)
        axes.set_ylim(0, 1.05)
        axes.set_xticks([0, 0.5, 1])
    panels[0].legend(loc="upper center", fontsize=6)
    return figure
