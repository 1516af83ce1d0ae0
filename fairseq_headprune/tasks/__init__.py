"""Registered tasks; the criterions with them, since fairseq imports a user-dir's tasks and models by itself,
but not its criterions."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()

from fairseq_headprune import criterions  # noqa: E402,F401
from fairseq_headprune.tasks import translation_headprune  # noqa: E402,F401
