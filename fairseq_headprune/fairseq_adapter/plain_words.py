"""Sentences for what ends fairseq's programs with a traceback and is no fault of a program."""

import re

_SAID = (
    (r"Dataset not found: (\S+) \((.*)\)", "{1} has no subset '{0}': choose a part that was binarised there"),
    (
        r"Could not infer language pair",
        "the folder of data holds no binarised data: name the one that fairseq-preprocess wrote",
    ),
    (
        r"The dataset is empty\.",
        "no sentence of the data is short enough for --max-tokens and the model: give a larger --max-tokens",
    ),
    (
        r"Sentences lengths should not exceed max_tokens=(\d+)",
        "a sentence is longer than --max-tokens {0}: give a larger number",
    ),
    (
        r"PytorchStreamWriter|unexpected pos",
        "cannot write a checkpoint, the disk may be full: the same command goes on from the one before",
    ),
)
"""What fairseq and torch say -> what it means."""


def sentence_for(error: BaseException) -> str | None:
    """The sentence, or None for an error whose traceback somebody needs."""
    for pattern, words in _SAID:
        found = re.search(pattern, str(error))
        if found:
            return words.format(*found.groups())
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"cannot read or write {where}{error.strerror}"
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return "the memory is too small for this: give a smaller --max-tokens"
    return None


def in_fairseq_program(traceback) -> bool:
    """Whether a program of fairseq is among the callers, or this is somebody's own with the package in it."""
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").startswith("fairseq_cli"):
            return True
        traceback = traceback.tb_next
    return False
