"""Speed, measured: stock, gated and pruned models of the same weights, timed in turns."""
