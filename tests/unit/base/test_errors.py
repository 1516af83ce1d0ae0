"""How a command ends that does not end well: one sentence, and the status that belongs to it."""

import subprocess
import sys

import pytest

from fairseq_headprune.base.errors import CannotWrite, UserError, command, goes_on


def ends(error, capsys):
    """(status, what is said) of a command that raises ``error``."""

    @command
    def main(argv):
        raise error

    with pytest.raises(SystemExit) as stopped:
        main([])
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    "error, status, said",
    [
        (UserError("--x is 3: use 4"), 2, "error: --x is 3: use 4\n"),
        (KeyboardInterrupt("it goes on"), 130, "interrupted: it goes on\n"),
        (
            KeyboardInterrupt(),
            130,
            "interrupted: nothing half-done is left, so give the same command again\n",
        ),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (OSError(28, "No space left", "a.csv"), 2, "error: cannot read or write a.csv: No space left\n"),
        (
            OSError(5, "Input/output error"),
            2,
            "error: cannot read or write a file or standard output: Input/output error\n",
        ),
    ],
)
def test_every_end_has_its_sentence_and_status(error, status, said, capsys):
    assert ends(error, capsys) == (status, said)


def test_work_that_goes_on_says_so():
    with pytest.raises(KeyboardInterrupt, match="it goes on"), goes_on("it goes on"):
        raise KeyboardInterrupt
    with pytest.raises(CannotWrite, match="no space; it goes on"), goes_on("it goes on"):
        raise CannotWrite("no space")
    with pytest.raises(UserError, match="^bad$"), goes_on("it goes on"):
        raise UserError("bad")


def test_memory_that_is_full_is_a_sentence(capsys):
    status, said = ends(MemoryError(), capsys)
    assert status == 2 and said.startswith("error: the memory is too small") and said.count("\n") == 1


def test_faults_of_ours_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        command(lambda argv: 1 / 0)()
    assert command(lambda argv: 7)() == 7


@pytest.mark.parametrize(
    "out, status, said",
    [
        ("| head -n 0", 141, ""),
        ("> /dev/full", 2, "error: cannot read or write a file or standard output: No space left"),
    ],
)
def test_output_that_nobody_takes(out, status, said):
    program = f"{sys.executable} -m fairseq_headprune --help"
    line = f"sleep 0.2; {program}; echo $? >&2" if "|" in out else f"{program} {out}; echo $? >&2"
    text = f"({line}) {out}" if "|" in out else line
    *lines, last = subprocess.run(
        ["bash", "-c", text], capture_output=True, text=True, check=False
    ).stderr.splitlines()
    assert int(last) == status and len(lines) == bool(said) and said in "".join(lines)
