"""What fairseq-interactive reads and prints, line by line.

Input with numbers, hypotheses with lines after.
"""

from collections import deque
from typing import Any

from fairseq.data import LanguagePairDataset


class NumberedLines(LanguagePairDataset):
    """Lines of interactive input that know their numbers since the start of the program."""

    def __init__(self, *args, first: int, numbers: deque, **kwargs):
        super().__init__(*args, **kwargs)
        self.first = first
        self.numbers = numbers

    def collater(self, samples, pad_to_length=None):
        """As fairseq's; notes the numbers of the batch's lines."""
        batch = super().collater(samples, pad_to_length)
        self.numbers.append(batch["id"] + self.first)
        return batch


class FollowedByLines(list):
    """Hypotheses of one sentence; whoever goes through a slice of them, as fairseq's programs do to
    print them, prints ``lines`` after the first."""

    def __init__(self, hypotheses: list[dict[str, Any]], lines: list[str]):
        super().__init__(hypotheses)
        self.lines = lines

    def __getitem__(self, item):
        picked = super().__getitem__(item)
        return self._followed(picked) if isinstance(item, slice) else picked

    def _followed(self, hypotheses):
        for number, hypothesis in enumerate(hypotheses):
            yield hypothesis
            if number == 0:
                print("\n".join(self.lines))
