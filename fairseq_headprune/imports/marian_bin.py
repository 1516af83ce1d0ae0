"""Marian's binary model format (``.bin``): float32, and 8-bit integers as intgemm stores them.

Little endian: uint64 version (1) and number of items; per item four uint64 (length of the name with its final
zero, type, number of dimensions, bytes of data); all names; all shapes (int32); one uint64, the bytes of
padding
that follow; all data in order.
"""

import struct
from pathlib import Path

import numpy as np

from fairseq_headprune.base.errors import UserError

VERSION = 1
FLOAT32 = 0x0404
INT8 = 0x0101
INTGEMM8 = (0x4101, 0x5101, 0x6101, 0x7101)
"""int8 of intgemm: independent of the machine, then laid out for SSSE3, AVX2, AVX512."""
NAMES = {
    0x0402: "float16",
    0x4102: "16-bit intgemm",
    0x5102: "16-bit intgemm",
    0x6102: "16-bit intgemm",
    0x0808: "fbgemm",
    0x0809: "fbgemm",
    0x080A: "fbgemm",
    0x0408: "float64",
}
CONFIGURATION = "special:model.yml"
MOST_ITEMS = 100_000


def read(path) -> tuple[str, dict[str, np.ndarray]]:
    """``(text of model.yml, name -> float32 array)`` with matrices ``[in, out]`` as in Marian's ``.npz``.

    Multipliers for integer arithmetic (``*_QuantMultA``) are no weights and are left out. UserError for files
    that are cut short, of another kind, or hold numbers in a form that is not read here.
    """
    data = Path(path).read_bytes()
    try:
        items = list(_items(data, path))
    except struct.error:
        raise UserError(
            f"{path} is cut short: its table of contents does not fit into {len(data):,} bytes"
        ) from None
    tensors, text = {}, None
    for name, kind, shape, start, length in items:
        if start + length > len(data):
            raise UserError(f"{path} is cut short: {name} ends at byte {start + length:,} of {len(data):,}")
        if name == CONFIGURATION:
            text = data[start : start + length].decode("utf-8", "replace").rstrip("\0")
        elif not name.endswith("_QuantMultA"):
            tensors[name] = _array(path, name, kind, shape, data[start : start + length])
    if text is None:
        raise UserError(f"{path} does not say how its model is built: it has no {CONFIGURATION}")
    return text, tensors


def _items(data: bytes, path):
    """``(name, type, shape, first byte, bytes)`` of every item."""
    version, count = struct.unpack_from("<QQ", data, 0)
    if version != VERSION or not 0 < count <= MOST_ITEMS:
        raise UserError(f"{path} is no Marian model: it does not begin as a .bin of version {VERSION}")
    at = 16 + 32 * count
    headers = [struct.unpack_from("<4Q", data, 16 + 32 * i) for i in range(count)]
    names, shapes = [], []
    for length, *_ in headers:
        names.append(data[at : at + length].rstrip(b"\0").decode("utf-8", "replace"))
        at += length
    for _, _, dimensions, _ in headers:
        shapes.append(struct.unpack_from(f"<{min(dimensions, 64)}i", data, at))
        at += 4 * dimensions
    at += 8 + struct.unpack_from("<Q", data, at)[0]
    for (_, kind, _, length), name, shape in zip(headers, names, shapes):
        yield name, kind, shape, at, length
        at += length


def _array(path, name: str, kind: int, shape, data: bytes) -> np.ndarray:
    """The values of one item."""
    size = int(np.prod(shape, dtype=np.int64)) if min(shape, default=0) >= 0 else -1
    if kind == FLOAT32:
        needed = 4 * size
    elif kind == INTGEMM8[0]:
        needed = size + 4
    else:
        if kind in INTGEMM8:
            what, advice = (
                "laid out for one kind of processor",
                "convert it with marian-conv --gemm-type intgemm8",
            )
        else:
            what, advice = f"stored as {NAMES.get(kind, hex(kind))}", "convert it to float32 with marian-conv"
        raise UserError(f"{path} cannot be read: {name} is {what}; {advice}")
    if size < 0 or needed > len(data):
        raise UserError(f"{path} is damaged: {name} has {len(data):,} bytes for the shape {list(shape)}")
    if kind == FLOAT32:
        return np.frombuffer(data, "<f4", size).reshape(shape).astype(np.float32)
    multiplier = np.frombuffer(data, "<f4", 1, size)[0]
    if not np.isfinite(multiplier) or multiplier == 0:
        raise UserError(f"{path} is damaged: the multiplier of {name} is {multiplier}")
    values = np.frombuffer(data, np.int8, size).astype(np.float32) / multiplier
    if name.endswith("Wemb"):  # all others lie transposed, as the product wants them
        return values.reshape(shape)
    return np.ascontiguousarray(values.reshape(shape[::-1]).T)
