"""Heads of several models matched by what they do."""
