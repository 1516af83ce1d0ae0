"""Parts of a network: attention over a set of heads, caches, one decoder step, weight storage."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()
