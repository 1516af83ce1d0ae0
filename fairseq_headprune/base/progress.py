"""What a long pass leaves behind so that the same command goes on after a kill."""

import io
import json
import time
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from fairseq_headprune.base import files
from fairseq_headprune.base.files import replacing


class Checkpoint:
    """Tallies and counts in one file, replaced as a whole at most every ``seconds``.

    ``identity`` is whatever must be equal for a saved state to be of use: dump, options, files.
    """

    def __init__(self, path, identity: Mapping, seconds: float = 30.0):
        self.path = Path(path)
        self.identity = json.dumps(identity, sort_keys=True)
        self.seconds = seconds
        self._last = time.monotonic()

    def load(self, tallies: Mapping) -> dict | None:
        """Fill the tallies and return what was saved with them; None when there is no state, or
        one of another dump or other options."""
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                about = json.loads(str(saved["about"]))
                if about["identity"] != self.identity:
                    return None
                arrays = {
                    name: {key: saved[f"{name}.{key}"] for key in tally.arrays()}
                    for name, tally in tallies.items()
                }
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        for name, tally in tallies.items():
            tally.restore(arrays[name])
        return about["state"]

    def save(self, tallies: Mapping, state: Mapping, now: bool = False) -> bool:
        """Save if it is time, or ``now``. True when something was written."""
        if not now and time.monotonic() - self._last < self.seconds:
            return False
        arrays = {f"{name}.{key}": array for name, t in tallies.items() for key, array in t.arrays().items()}
        about = json.dumps({"identity": self.identity, "state": dict(state)})
        data = io.BytesIO()  # straight into a file that cannot be written, zipfile ends in other errors
        np.savez(data, about=about, **arrays)
        files.write_bytes(self.path, data.getvalue())
        self._last = time.monotonic()
        return True

    def remove(self) -> None:
        """The pass is over."""
        self.path.unlink(missing_ok=True)


def write_whole(texts: Mapping[Path, str]) -> None:
    """Write several texts so that none is ever seen half-written, and all or none of them: every
    file is written under another name before the first one takes its own."""
    with ExitStack() as stack:
        for path, text in reversed(list(texts.items())):  # the last one entered takes its place first
            stack.enter_context(replacing(path)).write_text(text, encoding="utf-8")
