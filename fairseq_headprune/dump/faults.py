"""What may be wrong with a dump that somebody else wrote: pure decisions on its manifest, lines and
tensors, each a text that says what is wrong, or None."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout, flag

MOST = 1024
"""Heads of a layer, and layers: no Transformer has more, and a grid of that size still fits in memory."""


def of_manifest(manifest: Mapping[str, Any]) -> str | None:
    """A value of a wrong type, or heads that cannot be."""
    for name in ("model", "data", "options", "versions", "counts", "contents", "num_heads"):
        if not isinstance(manifest.get(name), dict):
            return f"{name} is no JSON object"
    for name in ("file", "sha256"):
        if not isinstance(manifest["model"].get(name), str):
            return f"model.{name} is no text"
    if not isinstance(manifest.get("complete"), bool):
        return "complete is neither true nor false"
    for kind in ("attention", "relevance"):
        types = manifest["contents"].get(kind)
        if not isinstance(types, list) or types != [t for t in ATTENTION_TYPES if t in types]:
            return f"contents.{kind} is no list of attention types in their order"
    try:
        layout = HeadLayout.from_dict(manifest.get("layout", {}), "layout")
    except UserError as error:
        return str(error)
    return _of_heads(layout, manifest["num_heads"])


def _of_heads(layout: HeadLayout, num_heads: Mapping[str, Any]) -> str | None:
    for key in ATTENTION_TYPES:
        heads: Any = num_heads.get(key)
        # a model may be without a type: then it has no layer of it and 0 heads
        if not _is_int(heads, 1 if layout[key] else 0, MOST + 1):
            return f"num_heads.{key} is {_short(heads)}, no number of heads from 1 to {MOST}"
        if len(layout[key]) > MOST:
            return f"layout has {len(layout[key])} layers of {flag(key)}, more than {MOST}"
        for layer, present in enumerate(layout[key]):
            if present and present[-1] >= heads:
                return (
                    f"layout names head {_short(present[-1])} of {flag(key)} layer {layer}, which has {heads}"
                )
    return None


def of_line(line: Any) -> str | None:
    """Of a line of a shard's ``.jsonl``, already parsed."""
    if not isinstance(line, dict):
        return "it is no JSON object"
    if not _is_int(line.get("id"), 0, 1 << 31):
        return f"id is {_short(line.get('id'))}, no number of a sentence"
    for side in ("source", "target"):
        tokens = line.get(side)
        if not isinstance(tokens, list) or not tokens or not all(isinstance(t, str) for t in tokens):
            return f"{side} is no list of tokens"
        try:
            "".join(tokens).encode("utf-8")
        except UnicodeEncodeError:
            return f"{side} has half of a surrogate pair, which is no character"
    if not _is_int(line.get("crc32"), 0, 1 << 32):
        return f"crc32 is {_short(line.get('crc32'))}, no checksum"
    return None


def of_tensor(entry: Mapping[str, Any], dtype: str, shape: Sequence[int]) -> str | None:
    """Of a tensor's entry in the header, against what its heads and tokens ask for."""
    if entry["dtype"] != dtype:
        return f"is {entry['dtype']}, and a dump has {dtype} there"
    if entry["shape"] != list(shape):
        return f"has the shape {entry['shape']}, and its heads and tokens ask for {list(shape)}"
    return None


def _is_int(value: Any, low: int, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value < end


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
