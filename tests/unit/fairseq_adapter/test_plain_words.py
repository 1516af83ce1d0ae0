"""What ends fairseq's programs, in a sentence; what nobody expected keeps its traceback."""

import sys

import pytest

from fairseq_headprune.fairseq_adapter.plain_words import in_fairseq_program, sentence_for


@pytest.mark.parametrize(
    "error, words",
    [
        (FileNotFoundError("Dataset not found: x (/data-bin)"), "/data-bin has no subset 'x': choose"),
        (Exception("Could not infer language pair, please provide it"), "holds no binarised data"),
        (Exception("The dataset is empty. This could indicate"), "give a larger --max-tokens"),
        (AssertionError("Sentences lengths should not exceed max_tokens=7"), "longer than --max-tokens 7"),
        (RuntimeError("[enforce fail] PytorchStreamWriter failed writing"), "the disk may be full"),
        (
            OSError(28, "No space left on device", "x.pt"),
            "cannot read or write x.pt: No space left on device",
        ),
        (NotADirectoryError(20, "Not a directory"), "cannot read or write Not a directory"),
        (MemoryError(), "the memory is too small"),
    ],
)
def test_ends_that_are_no_fault_of_a_program(error, words):
    assert words in sentence_for(error) and "\n" not in sentence_for(error)


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), KeyError("x"), OSError("odd")])
def test_faults_keep_their_traceback(error):
    assert sentence_for(error) is None


@pytest.mark.parametrize("name, expected", [("fairseq_cli.train", True), ("my_program", False)])
def test_only_programs_of_fairseq_are_spoken_for(name, expected):
    with pytest.raises(ZeroDivisionError) as raised:
        exec("def main():\n    1 / 0\nmain()", {"__name__": name})
    assert in_fairseq_program(raised.tb) is expected
    assert sys.excepthook.reports_user_errors
