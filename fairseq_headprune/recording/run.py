"""What one run of fairseq-generate or fairseq-interactive records: a dump, averaged relevance."""

import platform
import shutil
import sys
import time
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.outputs import check_file
from fairseq_headprune.dump import (
    DumpWriter,
    estimate_bytes,
    file_sha256,
    human_size,
    make_manifest,
    open_dump,
)
from fairseq_headprune.lrp.cost import Forecast
from fairseq_headprune.lrp.support import check_model
from fairseq_headprune.nn.projections import existing_layout, whole_layout
from fairseq_headprune.recording.options import RecordOptions
from fairseq_headprune.recording.relevance_table import RelevanceTable, save_json
from fairseq_headprune.units.layout import ATTENTION_TYPES


def model_identity(path: str) -> dict[str, str]:
    """``file`` and ``sha256`` of a checkpoint."""
    return {"file": str(path), "sha256": file_sha256(path)}


def versions() -> dict[str, str]:
    """Versions of what computed the numbers."""
    import fairseq
    import torch

    import fairseq_headprune

    return {
        "fairseq_headprune": fairseq_headprune.__version__,
        "fairseq": fairseq.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


WORTH_A_LOOK = 1e11
"""Multiplications from which on it is worth a second to see how fast they are here."""
WORTH_A_WORD = 20
"""Seconds of relevance from which on it is said how long it will take."""


def duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def say(message: str) -> None:
    """A line for the person who waits; standard output belongs to fairseq."""
    print(message, file=sys.stderr, flush=True)


class RunRecord:
    """Takes in the sentences of one run and keeps what `RecordOptions` asks for.

    ``model_file`` as in `model_identity`, ``data`` and ``run_options`` as in `make_manifest`.
    """

    def __init__(
        self,
        options: RecordOptions,
        model: nn.Module,
        dictionaries,
        model_file: Mapping[str, str],
        data: Mapping[str, Any],
        run_options: Mapping[str, Any],
    ):
        self.options = options
        self.interrupted = False
        self.empty: list[int] = []
        self.overlong: list[int] = []
        self.too_long: list[int] = []
        """Sentences that are too long for relevance."""
        self._source, self._target = dictionaries
        layout, whole = existing_layout(model), whole_layout(model)
        num_heads = {t: max(map(len, whole[t]), default=0) for t in ATTENTION_TYPES}
        self._layout = layout
        self.heads = len(layout)
        self.forecast: Forecast | None = None
        if options.rules:
            check_model(model)
            rules = {name: value for name, value in options.rules.items() if name != "start"}
            self.forecast = Forecast(model, **rules)
        self.table = RelevanceTable(layout) if options.rules else None
        self.total: int | None = None
        self._last_message = time.monotonic()
        self._new = 0
        self._done_sources: dict[int, int] = {}
        self._bytes = 0
        self._saved = False
        self._closed = False
        self.manifest = make_manifest(
            model=model_file,
            layout=layout,
            num_heads=num_heads,
            data=data,
            attention=options.attention_types,
            relevance=ATTENTION_TYPES if options.rules else (),
            options={**run_options, "relevance": options.described()},
            versions=versions(),
        )
        if options.table:
            check_file(options.table, "--relevance-table", make=False)
        self.writer = None
        if options.dump:
            self.writer = DumpWriter(options.dump, self.manifest)
            self._go_on()

    @property
    def done_ids(self):
        """Sentences that an earlier run of the same command has dumped."""
        return self.writer.done_ids if self.writer else frozenset()

    def _go_on(self):
        if not self.done_ids:
            return
        say(
            f"{self.options.dump} has {len(self.done_ids):,} sentences already: they are not "
            "translated again, and what fairseq prints is about the others"
        )
        for record in open_dump(self.options.dump):
            self._done_sources[record.id] = _fingerprint(record.source)
            if self.table:
                self.table.add(record.relevance)

    def expect(self, source_lengths: np.ndarray, target_lengths: np.ndarray) -> None:
        """Tell how many sentences of which lengths (EOS counted) the run has, done ones included."""
        self.total = len(source_lengths)
        self._announce(list(zip(source_lengths.tolist(), target_lengths.tolist())))
        if not self.writer:
            return
        size = self._estimate(source_lengths, target_lengths)
        say(f"dump of {self.total:,} sentences in {self.options.dump}: about {human_size(size)}")
        left = size * (1 - len(self.done_ids) / max(self.total, 1))
        free = shutil.disk_usage(self.options.dump).free
        if left > free:
            say(f"warning: only {human_size(free)} are free there")

    def expect_lines(self) -> None:
        """Tell that sentences will come as long as somebody types."""
        if self.writer:
            size = human_size(self._estimate([24], [24]))
            say(f"dump in {self.options.dump}: about {size} for a sentence of 24 tokens")

    def is_short(self, source: int, target: int) -> bool:
        """Whether a sentence of these lengths gets relevance."""
        limit = self.options.relevance_max_tokens
        return limit is None or max(source, target) <= limit

    def no_relevance(self, steps: int) -> dict[str, np.ndarray]:
        """What a sentence without relevance has in its place: zeros, which no average counts."""
        heads = self.manifest["num_heads"]
        return {t: np.zeros((steps, len(self._layout[t]), heads[t]), np.float32) for t in ATTENTION_TYPES}

    def announce_line(self, lengths: list[tuple[int, int]]) -> None:
        """Tell what relevance of sentences costs that nobody could tell before."""
        if self.total is None:
            self._announce(lengths)

    def _announce(self, lengths: list[tuple[int, int]]) -> None:
        """Tell what relevance will cost, where it is worth a word; (source tokens, steps) of sentences."""
        lengths = [pair for pair in lengths if self.is_short(*pair)]
        if self.forecast is None or not lengths or self.forecast.operations(lengths) < WORTH_A_LOOK:
            return
        seconds = self.forecast.seconds(lengths)
        if seconds < WORTH_A_WORD:
            return
        longest = max(lengths, key=max)
        what = f"{len(lengths):,} sentences" if len(lengths) > 1 else f"a sentence of {max(longest)} tokens"
        limit = "" if self.options.relevance_max_tokens else "; --relevance-max-tokens leaves long ones out"
        say(
            f"relevance of {what}: about {duration(seconds)} on this machine, and up to "
            f"{human_size(self.forecast.memory(*longest))} of memory{limit}"
        )

    def _estimate(self, source_lengths, target_lengths) -> int:
        contents = self.manifest["contents"]
        return estimate_bytes(self._layout, source_lengths, target_lengths, **contents)

    def done(self, id: int, source) -> bool:
        """Whether an earlier run has dumped this sentence (token ids, EOS last).

        UserError when what it dumped under this number is another sentence.
        """
        if id not in self._done_sources:
            return False
        words = [self._source[i] for i in source.tolist()]
        if _fingerprint(words) != self._done_sources[id]:
            self.interrupted = True
            raise UserError(
                f"sentence {id} in {self.options.dump} is not '{' '.join(words[:12])}': give the "
                "input that the dump was begun with, or another directory"
            )
        return True

    def skip(self, id: int, source) -> bool:
        """Whether the sentence is left out because it is empty: EOS alone."""
        if len(source) < 2:
            self.empty.append(id)
        return len(source) < 2

    def add(self, id: int, source, target, attention: Mapping, relevance: Mapping) -> None:
        """One sentence: token ids without padding, and arrays as `DumpWriter.add` takes them."""
        if self.writer:
            self.writer.add(
                id,
                [self._source[i] for i in source.tolist()],
                [self._target[i] for i in target.tolist()],
                attention,
                relevance,
            )
            self._bytes += sum(a.nbytes for a in (*attention.values(), *relevance.values()))
        if self.table:
            self.table.add(relevance)
        self._new += 1
        if time.monotonic() - self._last_message > 30:
            self._last_message = time.monotonic()
            say(self._progress())

    def _progress(self) -> str:
        total = f" of {self.total - len(self.empty):,}" if self.total is not None else ""
        written = f", {human_size(self._bytes)} in this run" if self.writer else ""
        return f"recorded {self.recorded:,}{total} sentences{written}"

    def relevance_lines(self, id: int, relevance: Mapping[str, np.ndarray]) -> list[str]:
        """``R-<id>`` lines of one sentence: per type and layer the mean share of each head."""
        one = RelevanceTable(self.table.layout)
        one.add(relevance)
        return one.lines(f"R-{id}")

    @property
    def recorded(self) -> int:
        """Sentences in the dump, or without one, recorded by this run."""
        return len(self.done_ids) if self.writer else self._new

    def finished(self) -> bool:
        """Whether every sentence that is known of was recorded."""
        missing = 0 if self.total is None else self.total - len(self.empty) - self.recorded
        return not self.interrupted and missing <= 0

    def save_if_finished(self) -> None:
        """Close the dump and write the table once every sentence that was expected is in."""
        if self.total is not None and self.finished():
            self._save()

    def _save(self):
        if self._saved:
            return
        self._saved = True
        if self.writer:
            self.writer.close(complete=self.finished())
        if self.table and self.options.table and self.finished():
            keys = ("model", "data", "options", "versions", "num_heads")
            provenance = {key: self.manifest[key] for key in keys}
            save_json(self.table.to_dict(provenance), self.options.table)

    def close(self, show_table: bool = False) -> None:
        """The run is over: save what is not saved yet and say what was recorded, once."""
        if self._closed:
            return
        self._closed = True
        self._save()
        for ids, what in (
            (self.empty, "empty sentences, translated as fairseq does and not recorded"),
            (self.overlong, "lines longer than the model takes, skipped"),
            (self.too_long, "sentences longer than --relevance-max-tokens, without relevance"),
        ):
            if ids:
                few = ", ".join(map(str, ids[:10])) + (", ..." if len(ids) > 10 else "")
                say(f"{what}: {len(ids):,} (numbers {few})")
        say(self._progress() + ("" if self.finished() else ", interrupted"))
        if not self.finished() and self.writer:
            say(f"the same command goes on with the sentences missing in {self.options.dump}")
        if self.table and self.table.warning():
            say("warning: " + self.table.warning())
        if self.table and show_table and self.finished():
            rules = self.options.rules
            print(
                f"Head relevance ({rules['rule']}, start {rules['start']}, attention "
                f"{rules['attention']}), share of the layer, mean of {self.table.steps:,} steps "
                f"of {self.table.sentences:,} sentences:"
            )
            print(self.table.text(), flush=True)


def _fingerprint(words: list[str]) -> int:
    return zlib.crc32(" ".join(words).encode("utf-8"))
