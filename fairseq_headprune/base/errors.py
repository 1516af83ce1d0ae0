"""The one exception for mistakes of the user, and how command lines report it and other ends."""

import os
import sys
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""
NOBODY_READS = 141
"""Exit status when standard output was closed by its reader, as shells have it."""


class UserError(ValueError):
    """Bad input. The message is one sentence that names the option or file and what to do."""


class CannotWrite(UserError):
    """A full or read-only disk: what was written before is whole, and the same command may go on."""


def exit_with(error: UserError):
    """Print the sentence on standard error and leave with status 2."""
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(2)


def exit_interrupted(how: str):
    """Print one sentence, how to go on, on standard error and leave with status 130."""
    print(f"interrupted: {how}", file=sys.stderr)
    raise SystemExit(INTERRUPTED)


@contextmanager
def goes_on(how: str):
    """Around work that the same command continues: ``how`` is said when Ctrl-C or a full disk stops it."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(how) from None
    except CannotWrite as error:
        raise CannotWrite(f"{error}; {how}") from None


def command(main):
    """Decorate a script's ``main(argv)``: whatever is not a fault of ours ends in one sentence.

    Bad input, a disk or memory that is full: status 2. Ctrl-C: 130, with the words that the
    KeyboardInterrupt carries, if any. Standard output that nobody reads any more: quiet, 141.
    """

    def run(argv=None):
        try:
            result = main(argv)
            if sys.stdout is not None:
                sys.stdout.flush()  # a full disk or a closed pipe shows here, and not after the end
            return result
        except UserError as error:
            exit_with(error)
        except KeyboardInterrupt as interrupt:
            exit_interrupted(str(interrupt) or "nothing half-done is left, so give the same command again")
        except BrokenPipeError:
            _forget_output()
            raise SystemExit(NOBODY_READS) from None
        except MemoryError:
            exit_with(UserError("the memory is too small for this: take less at a time, or a larger machine"))
        except OSError as error:
            _forget_output()
            where = error.filename or "a file or standard output"
            exit_with(UserError(f"cannot read or write {where}: {error.strerror or error}"))

    return run


def _forget_output() -> None:
    """What standard output still holds goes nowhere, or the interpreter would try again as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (AttributeError, ValueError):
        pass  # there is none, or it is closed
