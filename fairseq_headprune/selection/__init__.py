"""Which heads to keep: rankings by gradient, relevance, confidence, chance and gates."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()
