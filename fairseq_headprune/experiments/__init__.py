"""Experiments of sections 6.2 and 6.3: many prunings of one baseline, scored and compared."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()
