"""The one exception for mistakes of the user, and how command lines report it."""

import sys


class UserError(ValueError):
    """Bad input. The message is one sentence that names the option or file and what to do."""


def exit_with(error: UserError):
    """Print the sentence on standard error and leave with status 2."""
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(2)


def out_folder(text: str) -> str:
    """argparse type of a folder ``--out``: refuses the empty text that an unset variable of the shell
    leaves, and that would mean the current folder."""
    if not text.strip():
        exit_with(
            UserError("--out is empty: name a folder, . for the current one")
        )  # argparse catches ValueError
    return text


def command(main):
    """Decorate a script's ``main(argv)``: a UserError becomes one sentence and status 2."""

    def run(argv=None):
        try:
            return main(argv)
        except UserError as error:
            exit_with(error)

    return run
