"""How often each token occurs in training: a fairseq dictionary, or any file of that form."""

from pathlib import Path
from typing import Dict, NamedTuple, Set

from fairseq_headprune.errors import UserError


class Frequencies(NamedTuple):
    """Token -> count, and the set of the most frequent tokens."""

    counts: Dict[str, int]
    frequent: Set[str]


def load(path, top: int) -> Frequencies:
    """Read lines ``token count`` (fairseq's ``dict.en.txt``, ``subword-nmt get-vocab``), find the
    ``top`` most frequent; of equal counts the one earlier in the file.

    UserError names the line that has another form.
    """
    counts: Dict[str, int] = {}
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                fields = line.rstrip("\r\n").replace("\t", " ").rsplit(" ", 2)
                if fields[-1].startswith("#fairseq:"):
                    fields.pop()
                if len(fields) == 3:
                    fields = [f"{fields[0]} {fields[1]}", fields[2]]
                if len(fields) != 2 or not fields[1].isdecimal():
                    raise UserError(
                        f"{path}, line {number}: expected a token and its count, e.g. 'house 120'"
                    )
                if int(fields[1]):  # fairseq pads its dictionaries with words that do not occur
                    counts[fields[0]] = int(fields[1])
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read the frequencies {path}: {why}") from None
    if not counts:
        raise UserError(f"{Path(path)} has no token that occurs: give the training dictionary")
    order = sorted(counts, key=counts.get, reverse=True)
    return Frequencies(counts, set(order[:top]))
