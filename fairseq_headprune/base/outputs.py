"""Where a command is to write: checked when its options are read, before any work, leaving nothing behind.

`folder` and `file` make argparse types; `check_folder` and `check_file` are for options that come
another way. All refuse the empty text that an unset variable of the shell leaves.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from fairseq_headprune.base.errors import UserError, exit_with


def folder(option: str) -> Callable[[str], str]:
    """argparse type of a folder that will be made if it is not there."""
    return _type(check_folder, option)


def file(option: str, make: bool = True) -> Callable[[str], str]:
    """argparse type of a file; its folder will be made if need be, or without ``make`` must be there."""
    return _type(lambda text, option: check_file(text, option, make), option)


def _type(check, option):
    def read(text: str) -> str:
        try:
            check(text, option)
        except UserError as error:  # argparse would catch it, and say only that the value is invalid
            exit_with(error)
        return text

    return read


def check_folder(path, option: str) -> None:
    """UserError, by the option's name, unless files can be written into this folder."""
    if not str(path).strip():
        raise UserError(f"{option} is empty: name a folder, . for the current one")
    _try(Path(path), option, path, "folder")


def check_file(path, option: str, make: bool = True) -> None:
    """UserError, by the option's name, unless this file can be written, or replaced."""
    if not str(path).strip():
        raise UserError(f"{option} is empty: name a file")
    try:
        if str(path).endswith(os.sep) or os.path.isdir(path):
            raise UserError(f"{option} {path} is a folder: name a file")
        if os.path.exists(path) and not os.path.isfile(path):
            raise UserError(f"{option} {path} is a device or the like: name a file")
        if not make and not os.path.isdir(Path(path).parent):
            raise UserError(f"the folder of {option} {path} does not exist: create it first")
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except UserError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(f"{option} {str(path)[:100]!r} can be no file: {error.args[-1]}") from None
    _try(Path(path).parent, option, path, "file")


def _try(there: Path, option: str, path, what: str) -> None:
    """Make a file without a name in the folder, or where the folder would be made."""
    try:
        there = there.absolute()
        while not there.exists():
            if there.is_symlink():
                raise UserError(f"{option} {path}: {there} is a link to nowhere, so name another {what}")
            there = there.parent
        if not there.is_dir():
            raise UserError(f"{option} {path}: {there} is a file, so name another {what}")
        # only trying tells: permissions say nothing of a file system that takes no files
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise UserError(
            f"cannot write {option} {path} ({error.strerror or error}): name a {what} that can be written"
        ) from None
