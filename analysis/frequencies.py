"""How often each token occurs in training: a fairseq dictionary, or any file of that form."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from fairseq_headprune.analysis.words import UNKNOWN
from fairseq_headprune.base.errors import UserError


class Frequencies:
    """``counts``: token -> how often it occurs. ``frequent``: the set of the ``top`` most frequent
    tokens; of equal counts the one that comes first in ``counts``."""

    def __init__(self, counts: Mapping[str, int], top: int):
        self.counts = {token: count for token, count in counts.items() if count > 0}
        order = sorted(self.counts, key=self.counts.get, reverse=True)
        self.frequent = set(order[:top])
        # Number 0 is what the model itself did not know; tokens that are missing here go below 0.
        self._numbers = _Numbers({token: i for i, token in enumerate(order, 1)})
        self._numbers.update(dict.fromkeys(UNKNOWN - self.counts.keys(), 0))
        self._counts = np.array([0, *map(self.counts.get, order)], dtype=np.int64)
        self._top = min(top, len(order))

    def numbers(self, tokens: Iterable[str]) -> np.ndarray:
        """A number for each token, the same for the same token; below 0 if its count is not known."""
        return np.fromiter(map(self._numbers.__getitem__, tokens), np.int64)

    def look_up(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Count of each token, and whether it is among the most frequent."""
        known = np.maximum(numbers, 0)
        return self._counts[known], (0 < known) & (known <= self._top)


class _Numbers(dict):
    """Token -> number; one that is asked for the first time gets the next one below 0."""

    unknown = 0

    def __missing__(self, token):
        self.unknown -= 1
        self[token] = self.unknown
        return self.unknown


def load(path, top: int) -> Frequencies:
    """Read lines ``token count`` (fairseq's ``dict.en.txt``, ``subword-nmt get-vocab``), find the
    ``top`` most frequent; of equal counts the one earlier in the file.

    UserError names the line that has another form.
    """
    counts: dict[str, int] = {}
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                fields = line.rstrip("\r\n").replace("\t", " ").rsplit(" ", 2)
                if fields[-1].startswith("#fairseq:"):
                    fields.pop()
                if len(fields) == 3:
                    fields = [f"{fields[0]} {fields[1]}", fields[2]]
                # 18 digits fit 64 bits
                if len(fields) != 2 or not fields[1].isdecimal() or len(fields[1]) > 18:
                    raise UserError(
                        f"{path}, line {number}: expected a token and its count, e.g. 'house 120'"
                    )
                counts[fields[0]] = int(fields[1])
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read the frequencies {path}: {why}") from None
    if not any(counts.values()):  # fairseq pads its dictionaries with words that do not occur
        raise UserError(f"{Path(path)} has no token that occurs: give the training dictionary")
    return Frequencies(counts, top)
