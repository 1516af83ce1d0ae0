"""Tables of a Markdown page that are made from files: between ``<!-- table NAME SOURCE -->`` and
``<!-- end -->``. What a name means is the caller's business."""

import re
from collections.abc import Callable
from pathlib import Path

from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError

Table = Callable[[str, str], str]
"""A table's name and its source, as the page has them, to Markdown."""

_MARKED = re.compile(r"(<!-- table (\S+) (\S+) -->)\n.*?\n?(<!-- end -->)", re.DOTALL)


def fill(text: str, table: Table) -> str:
    """The text with every marked table made anew."""
    return _MARKED.sub(lambda m: f"{m[1]}\n{table(m[2], m[3]).rstrip()}\n{m[4]}", text)


def update(page: Path, table: Table, check: bool, command: str) -> None:
    """Make the tables of a page anew, whole or not at all.

    With ``check`` nothing is changed, and a page that is not what its files say is a UserError that
    names ``command``; so is a page that cannot be read.
    """
    try:
        old = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the page {page}: {error.strerror}") from None
    new = fill(old, table)
    if check:
        if new != old:
            raise UserError(f"{page} does not show what its files say: run {command} {page}")
        return
    files.write_text(page, new)
