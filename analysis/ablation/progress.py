"""What an interrupted ablation has measured, kept so that the same command goes on from there."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_headprune.analysis.ablation.heads_off import Intervention
from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError

GOES_ON = "what is measured is kept, and the same command goes on from there"


class Progress:
    """What is measured so far: in ``ablation.partial.jsonl``, a line each after a first line that
    says what is measured, until the table itself is written; then in the table.

    UserError when the folder holds measurements of another model, data or options.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]):
        self.path = folder / "ablation.partial.jsonl"
        self._records: dict[Any, dict[str, Any]] = {}
        self._started = time.monotonic()
        self._new = 0
        with files.writing(f"into --out {folder}"):
            self._read(identity)
            self._file = open(self.path, "ab", buffering=0)
        if not self._seen:
            self._write({"identity": identity})

    def _read(self, identity):
        self._seen = False
        table = self.path.with_name("ablation.json")
        if table.exists():
            data = files.read_json(table, "an ablation table")
            self._check({key: data["provenance"].get(key) for key in identity}, identity, table)
            for record in data["records"]:
                self._store({**record, "head": -1 if record["head"] is None else record["head"]})
        if self.path.exists():
            self._read_partial(identity)
        if self._records:
            print(f"{len(self._records)} measured by an earlier run: they are kept", file=sys.stderr)

    @staticmethod
    def _check(found, identity, path):
        if found != identity:
            raise UserError(
                f"{path} belongs to another model, data or options: choose another --out or delete it"
            )

    def _read_partial(self, identity):
        whole = [
            line for line in self.path.read_text(encoding="utf-8").splitlines(True) if line.endswith("\n")
        ]
        lines = [json.loads(line) for line in whole]
        if not lines:
            os.unlink(self.path)
            return
        self._check(lines[0].get("identity"), identity, self.path)
        self._seen = True
        files.write_text(self.path, "".join(whole))  # without a line that was cut off
        for line in lines[1:]:
            self._store(line)

    def _store(self, line):
        key = (line["kind"], line["type"], line["layer"], line["head"])
        self._records.setdefault(key, {}).update(line)

    def _write(self, data):
        files.append(self._file, json.dumps(data) + "\n")

    def missing(self, items: Sequence[Intervention], measure: str):
        """The items that lack ``measure``, with progress on standard error."""
        left = [i for i in items if measure not in self._records.get(i[:4], {})]
        started = last = time.monotonic()
        for number, item in enumerate(left):
            yield item
            now = time.monotonic()
            if now - last > 20 or number + 1 == len(left):
                last = now
                rest = (now - started) / (number + 1) * (len(left) - number - 1)
                print(
                    f"{measure}: {number + 1} of {len(left)}, about {rest / 60:.0f} min left",
                    file=sys.stderr,
                    flush=True,
                )

    def add(self, item: Intervention, measured: dict[str, Any]) -> None:
        """Keep what was measured."""
        line = {"kind": item.kind, "type": item.type, "layer": item.layer, "head": item.head, **measured}
        self._store(line)
        self._write(line)

    def record(self, item: Intervention) -> dict[str, Any]:
        """Everything measured of an item; ``head`` is null for a whole layer."""
        record = dict(self._records[item[:4]])
        return {**record, "head": None if item.head < 0 else item.head}

    def records(self, items: Sequence[Intervention]) -> list[dict[str, Any]]:
        """What was measured of the items, by this run or an earlier one, in their order."""
        return [self.record(item) for item in items if item[:4] in self._records]

    def close(self):
        """The table is written: the file is not needed any more."""
        self._file.close()
        os.unlink(self.path)
