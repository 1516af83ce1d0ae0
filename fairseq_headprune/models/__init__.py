"""Registered models: gated_transformer and pruned_transformer."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()

from fairseq_headprune.models import gated_transformer, pruned_transformer  # noqa: E402,F401
