"""What is fixed about a dump: names of files and tensors, the manifest, the order of heads, sizes."""

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.dump import faults
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout

FORMAT = "fairseq-headprune dump"
VERSION = 1
MANIFEST = "manifest.json"
SHARD = re.compile(r"shard-(\d{5,})\.safetensors")

ATTENTION_DTYPE = np.dtype("<f2")
RELEVANCE_DTYPE = np.dtype("<f4")

IDENTITY = ("model.sha256", "data", "layout", "num_heads", "contents", "options")
"""Manifest entries that must be equal for a run to continue a dump."""


def shard_name(number: int) -> str:
    """``shard-00007``; its files add ``.safetensors`` and ``.jsonl``."""
    return f"shard-{number:05d}"


def tensor_name(sentence: int, kind: str, type: str) -> str:
    """``"12.attention.enc_self"``."""
    return f"{sentence}.{kind}.{type}"


def stored_shape(kind: str, type: str, heads: int, source: int, target: int) -> list[int]:
    """Shape of a sentence's tensor, for ``heads`` existing heads and lengths with EOS counted."""
    if kind == "relevance":
        return [target, heads]
    return [heads, source if type == "enc_self" else target, target if type == "dec_self" else source]


def checksum(arrays: Iterable[np.ndarray]) -> int:
    """CRC-32 over the bytes of a sentence's tensors, in the order of their sorted names."""
    value = 0
    for array in arrays:
        value = zlib.crc32(array.data, value) if array.size else value
    return value


class Slots(NamedTuple):
    """Where the stored heads of one type stand in a full ``[layers, heads]`` grid."""

    layers: int
    heads: int
    index: list[tuple[int, int]]  # type: ignore[assignment]  # hides tuple.index, which nobody asks for
    """(layer, head) of each stored head, layer first."""
    flat: np.ndarray
    """layer * heads + head of each stored head."""

    def spread(self, array: np.ndarray, axis: int) -> np.ndarray:
        """``[..., stored, ...]`` at ``axis`` -> ``[..., layers, heads, ...]``, 0 where no head is.

        A view of the input when every head is stored.
        """
        before, after = array.shape[:axis], array.shape[axis + 1 :]
        if len(self.index) != self.layers * self.heads:
            full = np.zeros(before + (self.layers * self.heads,) + after, dtype=array.dtype)
            full[(slice(None),) * axis + (self.flat,)] = array
            array = full
        return array.reshape(before + (self.layers, self.heads) + after)

    def gather(self, array: np.ndarray, axis: int) -> np.ndarray:
        """The inverse: ``[..., layers, heads, ...]`` -> ``[..., stored, ...]``."""
        before, after = array.shape[:axis], array.shape[axis + 2 :]
        return array.reshape(before + (-1,) + after)[(slice(None),) * axis + (self.flat,)]


def slots(layout: HeadLayout, num_heads: Mapping[str, int]) -> dict[str, Slots]:
    """Per type, the order in which its heads are stored: by layer, then by head."""
    result = {}
    for key in ATTENTION_TYPES:
        index = [(layer, head) for layer, heads in enumerate(layout[key]) for head in heads]
        flat = np.array([layer * num_heads[key] + head for layer, head in index], dtype=np.int64)
        result[key] = Slots(len(layout[key]), num_heads[key], index, flat)
    return result


def estimate_bytes(
    layout: HeadLayout,
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    attention: Sequence[str] = ATTENTION_TYPES,
    relevance: Sequence[str] = (),
) -> int:
    """Bytes of the arrays of a dump of sentences of these lengths (tokens, EOS counted).

    Exact but for file headers and tokens, a few percent for sentences of usual length.
    """
    source = np.asarray(source_lengths, dtype=np.float64)
    target = np.asarray(target_lengths, dtype=np.float64)
    cells = {
        "enc_self": (source * source).sum(),
        "dec_self": (target * target).sum(),
        "dec_enc": (target * source).sum(),
    }
    counts = layout.counts()
    total = sum(ATTENTION_DTYPE.itemsize * counts[t] * cells[t] for t in attention)
    total += sum(RELEVANCE_DTYPE.itemsize * counts[t] * target.sum() for t in relevance)
    return int(total)


def human_size(size: float) -> str:
    """``1536`` -> ``"1.5 KB"``, powers of 1024."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            break
        size /= 1024
    else:
        unit = "TB"
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def file_sha256(path) -> str:
    """Hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return digest.hexdigest()


# -- the manifest -----------------------------------------------------------------------


def make_manifest(
    model: Mapping,
    layout: HeadLayout,
    num_heads: Mapping[str, int],
    data: Mapping | None = None,
    attention: Sequence[str] = ATTENTION_TYPES,
    relevance: Sequence[str] = (),
    options: Mapping | None = None,
    versions: Mapping | None = None,
) -> dict:
    """The description a dump starts with.

    ``model`` holds ``file`` and ``sha256``; ``layout`` the heads that exist and ``num_heads``,
    per type, how many each layer had before any was removed; ``attention`` and ``relevance`` the
    types that every sentence brings; ``data`` and ``options`` anything JSON can hold that, when
    it differs, makes another dump; ``versions`` is for information only.
    """
    manifest = {
        "format": FORMAT,
        "format_version": VERSION,
        "model": dict(model),
        "data": dict(data or {}),
        "layout": layout.to_dict(),
        "num_heads": {t: int(num_heads[t]) for t in ATTENTION_TYPES},
        "contents": {
            "attention": [t for t in ATTENTION_TYPES if t in attention],
            "relevance": [t for t in ATTENTION_TYPES if t in relevance],
        },
        "options": dict(options or {}),
        "versions": dict(versions or {}),
        "counts": {"sentences": 0, "shards": 0, "source_tokens": 0, "target_tokens": 0},
        "complete": False,
    }
    # As it will be read back, so that a comparison with the file compares like with like.
    return json.loads(json.dumps(manifest))


def read_manifest(directory) -> dict:
    """The manifest of a dump; UserError when the directory holds none that this version reads."""
    path = Path(directory) / MANIFEST
    try:
        if not path.is_file():
            raise UserError(
                f"{directory} is not a dump, since it has no {MANIFEST}: name a directory "
                "that --dump-attention wrote"
            )
        manifest = json.loads(path.read_text(encoding="utf-8"))
        # what could not be written into a table later is no manifest: NaN, half of a surrogate pair
        json.dumps(manifest, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is no JSON ({error}): the dump is damaged or of another program, so name or "
            "make another one"
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise UserError(f"{directory} is not a dump: its {MANIFEST} is of another program")
    if manifest.get("format_version") != VERSION:
        raise UserError(
            f"{directory} has format version {str(manifest.get('format_version'))[:40]}, this program "
            f"reads version {VERSION}: read it with the version that wrote it"
        )
    fault = faults.of_manifest(manifest)
    if fault:
        raise UserError(f"{path} is damaged: {fault}")
    return manifest


def _entry(manifest: Any, path: str) -> Any:
    for part in path.split("."):
        manifest = manifest.get(part) if isinstance(manifest, Mapping) else None
    return manifest


def difference(old: Mapping, new: Mapping, entries: Sequence[str] = IDENTITY) -> str | None:
    """Where two manifests describe different dumps: ``"options.beam is 5 there and 4 here"``."""
    for path in entries:
        before, after = _entry(old, path), _entry(new, path)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            keys = sorted(set(before) | set(after))
            return difference(old, new, [f"{path}.{key}" for key in keys])
        return f"{path} is {json.dumps(before)} there and {json.dumps(after)} here"
    return None
