"""Repairs of and tricks with fairseq, each with its reason."""
