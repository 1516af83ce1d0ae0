"""Importance (a), confidence (b) and function (c) of encoder self-attention heads.

Figure 1 of the paper. In each layer heads are sorted by their relevance.
"""

from fairseq_headprune.analysis.figures import grid


def draw(inputs):
    """One figure each for a, b, c; a is left out when the dump had no relevance."""
    table = inputs.main()
    drawn = {}
    if any(record["relevance"] is not None for record in table.of("enc_self").values()):
        drawn["a"] = grid.heat(
            table, "enc_self", "relevance", f"Relevance, {table.label}", "share of the layer"
        )
    drawn["b"] = grid.heat(
        table, "enc_self", "confidence", f"Confidence, {table.label}", "mean largest weight", limit=1
    )
    drawn["c"] = grid.function_grid(table, "enc_self", f"Functions, {table.label}")
    return drawn
