"""Reading a dump: one sentence at a time, in the order written, or by id; arrays are views of the
files, so a sentence that is not looked at costs next to nothing and memory stays at one shard."""

import json
import logging
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from safetensors import safe_open

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.dump import faults
from fairseq_headprune.dump.format import (
    ATTENTION_DTYPE,
    RELEVANCE_DTYPE,
    SHARD,
    Slots,
    checksum,
    read_manifest,
    shard_name,
    slots,
    stored_shape,
    tensor_name,
)
from fairseq_headprune.units.layout import HeadLayout, flag

logger = logging.getLogger(__name__)

DTYPES: dict[str, np.dtype] = {"F16": ATTENTION_DTYPE, "F32": RELEVANCE_DTYPE}
DTYPE_NAMES = {"attention": "F16", "relevance": "F32"}


class _Store:
    """The arrays of one shard's file, as views.

    Records point here and not to their `Shard`: without a cycle a shard's pages are given back
    as soon as nothing refers to its arrays.
    """

    def __init__(self, path: Path, contents: Mapping[str, list[str]], slots: dict[str, Slots]):
        self.contents = contents
        self.slots = slots
        with open(path, "rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._start = 8 + int.from_bytes(self._bytes[:8], "little")
        self.header = json.loads(self._bytes[8 : self._start])

    def tensor(self, id: int, kind: str, type: str) -> np.ndarray:
        """A read-only view of one stored array; UserError when the dump has none such."""
        entry = self.header.get(tensor_name(id, kind, type))
        if entry is None:
            raise UserError(f"the dump has no {flag(type)} {kind}")
        shape = entry["shape"]
        first, last = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        count = (last - first) // dtype.itemsize
        if not count:
            return np.zeros(shape, dtype)
        return np.frombuffer(self._bytes, dtype, count, self._start + first).reshape(shape)


class _Arrays(Mapping):
    """``type -> array`` of one sentence and kind, made when asked for."""

    def __init__(self, store: _Store, id: int, kind: str, axis: int):
        self._store, self._id, self._kind, self._axis = store, id, kind, axis

    def __getitem__(self, type: str) -> np.ndarray:
        stored = self._store.tensor(self._id, self._kind, type)
        return self._store.slots[type].spread(stored, self._axis)

    def __contains__(self, type):
        return type in self._store.contents[self._kind]

    def __iter__(self):
        return iter(self._store.contents[self._kind])

    def __len__(self):
        return len(self._store.contents[self._kind])


class Record:
    """One sentence of a dump.

    ``source`` and ``target`` are token lists that end with EOS (``</s>``). Row i of a query axis
    and column j of a key axis are source token i or j; on the target side, query i is the step
    that emits ``target[i]`` and key j is the decoder's j-th input: EOS for 0, else
    ``target[j - 1]``. Arrays are read-only and stay valid as long as they are referred to.
    """

    __slots__ = ("_store", "id", "source", "target", "crc32")

    def __init__(self, store: _Store, id: int, source: list[str], target: list[str], crc32: int):
        self._store = store
        self.id = id
        self.source = source
        self.target = target
        self.crc32 = crc32

    @property
    def attention(self) -> Mapping[str, np.ndarray]:
        """Type -> float16 ``[layers, heads, queries, keys]``, 0 for heads that do not exist."""
        return _Arrays(self._store, self.id, "attention", 0)

    @property
    def relevance(self) -> Mapping[str, np.ndarray]:
        """Type -> float32 ``[steps, layers, heads]``, not normalised; no types when not dumped."""
        return _Arrays(self._store, self.id, "relevance", 1)

    def heads_attention(self, type: str) -> np.ndarray:
        """float16 ``[existing heads, queries, keys]`` in the order of the dump's ``head_index``."""
        return self._store.tensor(self.id, "attention", type)

    def heads_relevance(self, type: str) -> np.ndarray:
        """float32 ``[steps, existing heads]`` in the order of the dump's ``head_index``."""
        return self._store.tensor(self.id, "relevance", type)

    def intact(self) -> bool:
        """Whether the arrays have the bytes that were written."""
        contents = self._store.contents
        kinds = sorted((kind, type) for kind in contents for type in contents[kind])
        arrays = [self._store.tensor(self.id, kind, type) for kind, type in kinds]
        return checksum(arrays) == self.crc32

    def __repr__(self):
        return f"Record(id={self.id}, source={len(self.source)}, target={len(self.target)} tokens)"


class Shard:
    """The sentences of one pair of files: ``name``, ``records``, iteration and ``len``."""

    def __init__(self, path: Path, contents: Mapping[str, list[str]], slots: dict[str, Slots]):
        self.name = path.stem
        store = _Store(path, contents, slots)
        self.records = [
            Record(store, line["id"], line["source"], line["target"], line["crc32"])
            for line in _read_lines(path.with_suffix(".jsonl"))
        ]
        self._by_id: dict[int, Record] = {}

    def record(self, id: int) -> Record:
        """The sentence with this id; KeyError when the shard lacks it."""
        if not self._by_id:
            self._by_id = {record.id: record for record in self.records}
        return self._by_id[id]

    def __len__(self):
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)


def _read_lines(path: Path) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _examine(path: Path, contents, slots) -> tuple[list[int], int, int]:
    """Ids and token counts of a shard whose files are whole and agree; otherwise an exception says why.

    safetensors itself checks that the header is sound and the file as long as it announces.
    """
    for file in (path.with_suffix(".jsonl"), path):
        if not file.is_file():
            raise ValueError(f"{file.name} is {'no file' if file.exists() else 'missing'}")
    lines = _read_lines(path.with_suffix(".jsonl"))
    with safe_open(str(path), framework="np"):
        store = _Store(path, contents, slots)
    stored = set(store.header) - {"__metadata__"}
    for number, line in enumerate(lines):
        fault = faults.of_line(line)
        if fault:
            raise ValueError(f"line {number + 1} of {path.with_suffix('.jsonl').name}: {fault}")
        for kind, type in ((kind, type) for kind in contents for type in contents[kind]):
            name = tensor_name(line["id"], kind, type)
            if name not in stored:
                raise ValueError(f"{name} is missing, or sentence {line['id']} is there twice")
            stored.remove(name)
            shape = stored_shape(kind, type, len(slots[type].index), len(line["source"]), len(line["target"]))
            fault = faults.of_tensor(store.header[name], DTYPE_NAMES[kind], shape)
            if fault:
                raise ValueError(f"{name} {fault}")
    if not lines or stored:
        raise ValueError("its arrays and its lines name different sentences")
    ids = [line["id"] for line in lines]
    if len(set(ids)) < len(ids):  # where no arrays tell
        raise ValueError("a sentence is there twice")
    return (
        ids,
        sum(len(line["source"]) for line in lines),
        sum(len(line["target"]) for line in lines),
    )


class Dump:
    """An open dump: iterate for records in the order written, or index by sentence id.

    ``manifest``: the dict in manifest.json. ``layout``: the heads that exist. ``head_index``:
    type -> list of (layer, head) of the stored heads. ``damaged``: shard name -> reason, for
    shards that are left out. ``len`` counts the sentences that can be read.
    """

    def __init__(self, directory):
        self.directory = Path(directory)
        self.manifest = read_manifest(self.directory)
        self.layout = HeadLayout.from_dict(self.manifest["layout"])
        self.num_heads: dict[str, int] = dict(self.manifest["num_heads"])
        self.contents: dict[str, list[str]] = self.manifest["contents"]
        self.slots = slots(self.layout, self.num_heads)
        self.head_index = {type: entry.index for type, entry in self.slots.items()}
        self.damaged: dict[str, str] = {}
        self.shard_numbers: list[int] = []
        self.counts = {"sentences": 0, "shards": 0, "source_tokens": 0, "target_tokens": 0}
        self._where: dict[int, int] = {}
        self._open: tuple[int, Shard] | None = None
        self._scan()

    def _scan(self):
        try:
            found = [SHARD.fullmatch(path.name) for path in self.directory.iterdir()]
        except OSError as error:
            raise UserError(f"cannot read {self.directory}: {error.strerror}") from None
        numbers = sorted({int(match[1]) for match in found if match})
        for number in numbers:
            name = shard_name(number)
            try:
                path = self.directory / (name + ".safetensors")
                ids, source_tokens, target_tokens = _examine(path, self.contents, self.slots)
                again = next((id for id in ids if id in self._where), None)
                if again is not None:
                    raise ValueError(f"sentence {again} is in an earlier shard too")
            except Exception as error:  # whatever is wrong with it, the other shards count
                self.damaged[name] = _reason(error)
                logger.warning("%s in %s is left out: %s", name, self.directory, _reason(error))
                continue
            self.shard_numbers.append(number)
            self._where.update((id, number) for id in ids)
            self.counts["sentences"] += len(ids)
            self.counts["shards"] += 1
            self.counts["source_tokens"] += source_tokens
            self.counts["target_tokens"] += target_tokens

    @property
    def ids(self) -> list[int]:
        """Sentence ids in the order written (generation sorts by length, not by id)."""
        return list(self._where)

    def _shard(self, number: int) -> Shard:
        if self._open is None or self._open[0] != number:
            self._open = None
            path = self.directory / (shard_name(number) + ".safetensors")
            self._open = (number, Shard(path, self.contents, self.slots))
        return self._open[1]

    def iter_shards(self) -> Iterator[Shard]:
        """Whole shards (``len``, iteration, ``records``), for code that works on many at a time."""
        for number in self.shard_numbers:
            yield self._shard(number)

    def __iter__(self) -> Iterator[Record]:
        for shard in self.iter_shards():
            yield from shard

    def __len__(self):
        return len(self._where)

    def __contains__(self, id):
        return id in self._where

    def __getitem__(self, id: int) -> Record:
        """The sentence with this id; KeyError when the dump lacks it.

        The shard of the last sentence stays open: fastest when neighbours in ``ids`` are asked
        for one after the other.
        """
        if id not in self._where:
            raise KeyError(id)
        return self._shard(self._where[id]).record(id)

    def verify(self) -> dict[str, str]:
        """Read everything and compare checksums: shard name -> reason for every damaged shard."""
        bad = dict(self.damaged)
        for shard in self.iter_shards():
            for record in shard:
                if not record.intact():
                    bad[shard.name] = f"sentence {record.id} has other bytes than were written"
                    break
        return bad


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def open_dump(directory) -> Dump:
    """Open the dump in ``directory``; UserError when it holds none. Damaged shards are named in a
    warning and in ``Dump.damaged``, the others are read."""
    return Dump(directory)
