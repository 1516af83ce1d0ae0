"""Registered tasks."""

from fairseq_headprune.tasks import translation_headprune  # noqa: F401
