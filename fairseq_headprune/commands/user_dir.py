"""``headprune user-dir``: the folder to give fairseq as ``--user-dir``."""

from pathlib import Path


def add_arguments(parser):
    """It has none."""


def run(args):
    """Print the folder."""
    print(Path(__file__).resolve().parents[1])
