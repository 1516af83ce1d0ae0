"""Reading and writing the tables that the analysis passes on: whole or not at all."""

import csv
import io
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fairseq_headprune.base.errors import CannotWrite, UserError

_TORCH_CANNOT_WRITE = ("PytorchStreamWriter", "unexpected pos", "cannot be opened", "Parent directory")


@contextmanager
def writing(path) -> Iterator[None]:
    """A write inside that fails, by Python's words or by torch's, becomes one sentence (CannotWrite) that
    names ``path``."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}") from None
    except RuntimeError as error:
        # torch's writer knows no other exception, and has several sentences for a disk that is full
        reason = (str(error).splitlines() or [""])[0]
        if not any(words in reason for words in _TORCH_CANNOT_WRITE):
            raise
        raise CannotWrite(f"cannot write {path}: the disk may be full ({reason})") from None


@contextmanager
def replacing(path, make: bool = True) -> Iterator[Path]:
    """A name beside ``path`` to write to; moved into its place when the block ends well, else removed.
    Makes the folder if needed and ``make``. CannotWrite as `writing`."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"cannot write {path}: it is a folder, so name a file")
    temporary = path.with_name(f".{path.name[:40]}.{os.getpid()}-{threading.get_ident()}")
    with writing(path):
        try:
            if make:
                path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_bytes(path, data: bytes) -> None:
    """Write a file whole or not at all; makes the folder if needed."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def append(file, text: str) -> None:
    """Add text to a file that was opened as bytes and without a buffer, whose rest would fail once more
    when the file is closed. CannotWrite as `writing`."""
    left = text.encode("utf-8")
    with writing(file.name):
        while left:  # a disk that is nearly full takes a part
            left = left[file.write(left) :]


def write_text(path, text: str) -> None:
    """`write_bytes` in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path, data: Any) -> None:
    """As JSON with one space of indentation."""
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_csv(path, rows: Iterable[Mapping], columns: Sequence[str]) -> None:
    """One line a row; missing values and None are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_json(path, what: str) -> Any:
    """The content of a JSON file; UserError, naming ``what`` it should be, when it cannot be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {what} {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not {what}: it is no JSON ({error})") from None


def table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Text table in columns; the first row is the head, the first ``left`` columns are left-aligned."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            str(cell).ljust(width) if i < left else str(cell).rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """The same as a Markdown table."""

    def escape(cell):
        return str(cell).replace("|", "\\|")

    head, *body = [[escape(cell) for cell in row] for row in rows]
    marks = ["---" if i < left else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, marks, *body]) + "\n"
