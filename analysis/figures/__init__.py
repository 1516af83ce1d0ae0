"""The paper's figures and tables, from saved tables only: one file a figure.

A new figure is a new file here with a docstring, whose first line becomes its caption, and a
function ``draw(inputs)`` that returns a matplotlib figure, a mapping of name endings to figures
(``{"a": ..., "b": ...}``) or, for a table, Markdown text. The command finds it by itself. What is
missing from the inputs is asked for by raising `Missing` (``inputs.main()`` and the like do).
"""

from fairseq_headprune.analysis.figures.command import add_arguments, run

__all__ = ["add_arguments", "run"]
