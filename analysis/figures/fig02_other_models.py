"""Importance and function of encoder heads of further models (other languages, domains, seeds).

Figure 2 of the paper: a and b for the second model, c and d for the third, and so on.
"""

from string import ascii_lowercase

from fairseq_headprune.analysis.figures import grid


def draw(inputs):
    """Two figures a model; importance is left out when a dump had no relevance."""
    drawn = {}
    letters = iter(ascii_lowercase)
    for table in inputs.others():
        one, two = next(letters), next(letters)
        if any(record["relevance"] is not None for record in table.of("enc_self").values()):
            drawn[one] = grid.heat(
                table, "enc_self", "relevance", f"Relevance, {table.label}", "share of the layer"
            )
        drawn[two] = grid.function_grid(table, "enc_self", f"Functions, {table.label}")
    return drawn
