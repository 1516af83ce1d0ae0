"""Checkpoint files: reading, removal of heads, export."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()
