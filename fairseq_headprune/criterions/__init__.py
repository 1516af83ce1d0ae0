"""Registered criterions: label_smoothed_cross_entropy_l0."""

from fairseq_headprune.criterions import label_smoothed_cross_entropy_l0  # noqa: F401
