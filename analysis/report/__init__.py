"""One self-contained page about one model's heads, for a browser without a network.

``claims`` puts into words what may be said of a head, ``page`` puts everything into one file;
``page.html``, ``page.css`` and the ``.js`` files are its parts, joined as they are.
"""

from fairseq_headprune.analysis.report.command import add_arguments, run

__all__ = ["add_arguments", "run"]
