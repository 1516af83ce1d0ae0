"""Heads switched off at test time."""
