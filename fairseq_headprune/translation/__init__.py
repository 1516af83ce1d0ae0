"""Text in, text out, and its score."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()
