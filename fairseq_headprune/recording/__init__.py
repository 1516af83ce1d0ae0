"""Attention and relevance recorded while fairseq translates."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()
