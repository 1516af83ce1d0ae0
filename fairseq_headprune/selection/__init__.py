"""Which heads to keep: rankings by gradient, relevance, confidence, chance and gates."""
