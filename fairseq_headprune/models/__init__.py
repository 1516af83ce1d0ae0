"""Registered models: gated_transformer and pruned_transformer."""

from fairseq_headprune.models import gated_transformer, pruned_transformer  # noqa: F401
