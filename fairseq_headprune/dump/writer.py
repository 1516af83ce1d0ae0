"""Writing a dump so that a killed run loses one shard at most and the same command goes on."""

import json
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from fairseq_headprune.base.errors import CannotWrite, UserError
from fairseq_headprune.base.locking import NAME as LOCK
from fairseq_headprune.base.locking import FolderLock
from fairseq_headprune.dump.format import (
    ATTENTION_DTYPE,
    MANIFEST,
    RELEVANCE_DTYPE,
    checksum,
    difference,
    read_manifest,
    shard_name,
    slots,
    stored_shape,
    tensor_name,
)
from fairseq_headprune.dump.reader import open_dump
from fairseq_headprune.units.layout import HeadLayout

logger = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]


class DumpWriter:
    """Adds sentences to the dump in ``directory``, new or begun by a run with the same manifest.

    ``manifest`` comes from `make_manifest`. UserError when the directory cannot be written, holds
    something else, or holds a dump of another model, data or option set (the message says which).
    ``done_ids`` are the sentences that the dump has already; adding one again is an error.

    A shard is written when ``shard_bytes`` of arrays are waiting or ``shard_seconds`` have passed
    since the last one; no more than that is lost to a kill or held in memory.
    """

    def __init__(
        self,
        directory,
        manifest: Mapping,
        shard_bytes: int = 64 << 20,
        shard_seconds: float = 120.0,
    ):
        self.directory = Path(directory)
        self.shard_bytes = shard_bytes
        self.shard_seconds = shard_seconds
        self.done_ids: set[int] = set()
        self.manifest = dict(manifest, counts=dict(manifest["counts"]), complete=False)
        self.slots = slots(HeadLayout.from_dict(manifest["layout"]), manifest["num_heads"])
        self._tensors: dict[str, np.ndarray] = {}
        self._lines: list[str] = []
        self._waiting = 0
        self._next_shard = 0
        self._last_shard = time.monotonic()
        self._lock: FolderLock | None = None
        try:
            if self.directory.exists() and not self.directory.is_dir():
                raise UserError(f"{directory} is no directory: give a new or empty one for the dump")
            self.directory.mkdir(parents=True, exist_ok=True)
            self._claim()
            self._begin()
        except OSError as error:
            self._release()
            raise UserError(
                f"cannot write to the dump directory {directory} ({error.strerror or error}): give "
                "one that can be made and written"
            ) from None
        except UserError:
            self._release()
            raise

    def _release(self):
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _claim(self):
        present = sorted(p.name for p in self.directory.iterdir())
        ours = {LOCK, MANIFEST + ".tmp"}  # all that a run killed at its very start leaves
        if MANIFEST not in present and not ours.issuperset(present):
            raise UserError(f"{self.directory} is not empty and is not a dump: give a new or empty directory")
        self._lock = FolderLock(self.directory)

    def _begin(self):
        if not (self.directory / MANIFEST).exists():
            self._write_manifest()
            return
        unlike = difference(read_manifest(self.directory), self.manifest)
        if unlike:
            raise UserError(
                f"{self.directory} holds another dump ({unlike}): "
                "give the options it was made with, or another directory"
            )
        for leftover in self.directory.glob("*.tmp"):
            leftover.unlink()
        dump = open_dump(self.directory)
        for name, reason in dump.damaged.items():
            # Kept aside for whoever wants to look; its sentences are made again.
            for suffix in (".safetensors", ".jsonl"):
                path = self.directory / (name + suffix)
                if os.path.lexists(path):
                    os.replace(path, self.directory / ("damaged-" + path.name))
            logger.warning("%s is damaged (%s): its sentences are made again", name, reason)
        self.done_ids = set(dump.ids)
        self._next_shard = 1 + max(dump.shard_numbers, default=-1)
        self.manifest["counts"] = dict(dump.counts)
        self._write_manifest()

    def add(
        self,
        id: int,
        source: Sequence[str],
        target: Sequence[str],
        attention: Arrays | None = None,
        relevance: Arrays | None = None,
    ):
        """One sentence. ``source`` and ``target`` are token lists that end with EOS.

        Per type ``attention`` is ``[layers, heads, queries, keys]`` or, removed heads left out,
        ``[existing heads, queries, keys]``; ``relevance`` is ``[steps, layers, heads]`` or
        ``[steps, existing heads]``. Types must be those the manifest announces.
        """
        if id in self.done_ids:
            raise ValueError(f"sentence {id} is in the dump already")
        tensors = {}
        self._check_types(attention, relevance)
        for type, array in (attention or {}).items():
            array = np.asarray(array)
            if array.ndim == 4:
                array = self.slots[type].gather(array, axis=0)
            self._check(array, "attention", type, source, target)
            tensors[tensor_name(id, "attention", type)] = array.astype(ATTENTION_DTYPE, order="C")
        for type, array in (relevance or {}).items():
            array = np.asarray(array)
            if array.ndim == 3:
                array = self.slots[type].gather(array, axis=1)
            self._check(array, "relevance", type, source, target)
            tensors[tensor_name(id, "relevance", type)] = array.astype(RELEVANCE_DTYPE, order="C")
        line = {"id": int(id), "source": list(source), "target": list(target)}
        line["crc32"] = checksum(tensors[name] for name in sorted(tensors))
        self._lines.append(json.dumps(line, ensure_ascii=False))
        self._tensors.update(tensors)
        self._waiting += sum(array.nbytes for array in tensors.values())
        self.done_ids.add(int(id))
        counts = self.manifest["counts"]
        counts["sentences"] += 1
        counts["source_tokens"] += len(source)
        counts["target_tokens"] += len(target)
        late = time.monotonic() - self._last_shard >= self.shard_seconds
        if self._waiting >= self.shard_bytes or late:
            self.flush()

    def _check_types(self, attention, relevance):
        for kind, arrays in (("attention", attention), ("relevance", relevance)):
            announced = self.manifest["contents"][kind]
            if set(arrays or {}) != set(announced):
                raise ValueError(f"the manifest announces {kind} of {announced}, got {sorted(arrays or {})}")

    def _check(self, array, kind, type, source, target):
        shape = stored_shape(kind, type, len(self.slots[type].index), len(source), len(target))
        if list(array.shape) != shape:
            raise ValueError(f"{type} has shape {list(array.shape)}, expected {shape}")

    def flush(self):
        """Write what is waiting as one shard."""
        self._last_shard = time.monotonic()
        if not self._lines:
            return
        name = shard_name(self._next_shard)
        text = "\n".join(self._lines) + "\n"
        try:
            # The arrays come last: a shard exists when its .safetensors does.
            self._write(name + ".jsonl", lambda path: path.write_text(text, encoding="utf-8"))
            self._write(name + ".safetensors", self._save_tensors)
            self.manifest["counts"]["shards"] += 1
            self._write_manifest()
        except (OSError, SafetensorError) as error:
            raise CannotWrite(
                f"cannot write {self.directory / name}: {error}; the shards before it are whole, "
                "and the same command goes on after them"
            ) from None
        self._next_shard += 1
        self._tensors, self._lines, self._waiting = {}, [], 0

    def _write(self, name, write):
        temporary = self.directory / (name + ".tmp")
        write(temporary)
        os.replace(temporary, self.directory / name)

    def _save_tensors(self, path):
        save_file(self._tensors, path)
        # safetensors makes files that only their owner reads; these are as open as the others
        shutil.copymode(self.directory / MANIFEST, path)

    def _write_manifest(self):
        entries = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self.manifest.items())
        text = "{\n" + ",\n".join(entries) + "\n}\n"
        self._write(MANIFEST, lambda path: path.write_text(text, encoding="utf-8"))

    def close(self, complete: bool = True):
        """Write the last shard; ``complete=False`` says that sentences are still missing."""
        if self._lock is None:
            return
        try:
            self.flush()
            self.manifest["complete"] = complete
            self._write_manifest()
        except OSError as error:
            raise CannotWrite(
                f"cannot write {self.directory / MANIFEST}: {error.strerror or error}"
            ) from None
        finally:
            self._release()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close(complete=kind is None)
