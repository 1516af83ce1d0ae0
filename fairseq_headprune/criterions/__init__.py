"""Registered criterions: label_smoothed_cross_entropy_l0."""

from fairseq_headprune.fairseq_adapter import prepare

prepare()

from fairseq_headprune.criterions import label_smoothed_cross_entropy_l0  # noqa: E402,F401
