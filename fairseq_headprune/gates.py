"""The old place of `fairseq_headprune.units.gates`, kept for programs that import it."""

from fairseq_headprune.units.gates import *  # noqa: F403
