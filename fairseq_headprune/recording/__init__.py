"""Attention and relevance recorded while fairseq translates."""
