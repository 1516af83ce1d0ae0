"""The old place of `fairseq_headprune.units.layout`, kept for programs that import it."""

from fairseq_headprune.units.layout import *  # noqa: F403
