"""Which attention heads a model has: the one type that describes a set of heads.

Heads and layers are numbered from 0 and a head keeps its number after others are removed.
Nothing in this module knows about torch or fairseq.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.anatomy import PLACES

ATTENTION_TYPES = tuple(PLACES)
"""Keys of the three attention types, in the order used everywhere."""


class Head(NamedTuple):
    """One attention head: its type key, layer and number."""

    type: str
    layer: int
    head: int

    def __str__(self):
        return f"{flag(self.type)}:{self.layer}:{self.head}"


def flag(key: str) -> str:
    """``enc_self`` -> ``enc-self``, the spelling on command lines."""
    return key.replace("_", "-")


def parse_type(text: str) -> str:
    """``enc-self`` (or ``enc_self``) -> ``enc_self``; UserError for any other word."""
    key = text.strip().replace("-", "_")
    if key not in ATTENTION_TYPES:
        raise UserError(
            f"unknown attention type '{text.strip()}': use " + ", ".join(flag(t) for t in ATTENTION_TYPES)
        )
    return key


def parse_types(text: str) -> tuple[str, ...]:
    """``enc-self,dec-enc``, ``all`` or ``none`` -> type keys in the standard order."""
    text = (text or "none").strip()
    if text == "none":
        return ()
    if text == "all":
        return ATTENTION_TYPES
    wanted = {parse_type(part) for part in text.split(",")}
    return tuple(t for t in ATTENTION_TYPES if t in wanted)


def parse_head(text: str) -> Head:
    """``enc-self:1:3`` -> Head('enc_self', 1, 3)."""
    parts = text.split(":")
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        raise UserError(f"'{text}' is not a head: write type:layer:head, e.g. enc-self:1:3")
    return Head(parse_type(parts[0]), int(parts[1]), int(parts[2]))


Layers = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class HeadLayout:
    """The heads that exist, per type and layer: ``layout["enc_self"][layer]`` is a sorted
    tuple of head numbers, possibly empty.

    JSON form: ``{"enc_self": [[0, 3], [], ...], "dec_self": [...], "dec_enc": [...]}``.
    """

    enc_self: Layers
    dec_self: Layers
    dec_enc: Layers

    def __post_init__(self):
        for key in ATTENTION_TYPES:
            layers = []
            for number, heads in enumerate(getattr(self, key)):
                if len(set(heads)) != len(heads):
                    raise UserError(f"{flag(key)} layer {number} of the head layout names a head twice")
                layers.append(tuple(sorted(int(h) for h in heads)))
            object.__setattr__(self, key, tuple(layers))

    # -- making one -----------------------------------------------------------------

    @classmethod
    def full(cls, encoder_layers: int, encoder_heads: int, decoder_layers: int, decoder_heads: int):
        """Every head of a Transformer of this size."""
        encoder = (tuple(range(encoder_heads)),) * encoder_layers
        decoder = (tuple(range(decoder_heads)),) * decoder_layers
        return cls(encoder, decoder, decoder)

    @classmethod
    def from_heads(cls, heads: Sequence[Head], like: "HeadLayout") -> "HeadLayout":
        """The given heads, with as many layers as ``like`` has."""
        layers: dict[str, list[list[int]]] = {t: [[] for _ in like[t]] for t in ATTENTION_TYPES}
        for head in heads:
            layers[head.type][head.layer].append(head.head)
        return cls(**{t: tuple(map(tuple, layers[t])) for t in ATTENTION_TYPES})

    @classmethod
    def parse(cls, text: str, whole: "HeadLayout", option: str) -> "HeadLayout":
        """``enc-self:0:3,dec-enc:5:1``; UserError names ``option`` for a head that ``whole`` lacks."""
        heads = {parse_head(part.strip()) for part in text.split(",")}
        for head in sorted(heads):
            if head not in whole:
                raise UserError(f"{option} names {head}, which the model does not have")
        return cls.from_heads(sorted(heads), whole)

    @classmethod
    def from_masks(cls, masks: Mapping[str, Sequence]) -> "HeadLayout":
        """From ``type -> [layers, heads]`` arrays, a true entry for a head that exists."""
        return cls(
            **{
                t: tuple(tuple(int(h) for h in np.flatnonzero(row)) for row in np.asarray(masks[t]))
                for t in ATTENTION_TYPES
            }
        )

    @classmethod
    def from_dict(cls, data: Mapping, source: str = "the head layout") -> "HeadLayout":
        """From the JSON form, already parsed. ``source`` names the file in messages."""
        if not isinstance(data, Mapping) or set(data) != set(ATTENTION_TYPES):
            raise UserError(
                f"{source} must be a JSON object with exactly the keys " + ", ".join(ATTENTION_TYPES)
            )
        for key in ATTENTION_TYPES:
            good = isinstance(data[key], (list, tuple)) and all(
                isinstance(layer, (list, tuple))
                and all(isinstance(h, int) and not isinstance(h, bool) and h >= 0 for h in layer)
                for layer in data[key]
            )
            if not good:
                raise UserError(f"{source}: '{key}' must be a list with one list of head numbers per layer")
        try:
            return cls(**{t: tuple(tuple(layer) for layer in data[t]) for t in ATTENTION_TYPES})
        except UserError as error:
            raise UserError(f"{source}: {error}") from None

    @classmethod
    def from_json(cls, text: str, source: str = "the head layout") -> "HeadLayout":
        """From JSON text."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{source} is not JSON ({error}): give what headprune layout --json prints"
            ) from None
        return cls.from_dict(data, source)

    @classmethod
    def load(cls, path) -> "HeadLayout":
        """From a JSON file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot read the head layout {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UserError(
                f"the head layout {path} is no text: name a JSON file, or a checkpoint called *.pt"
            ) from None
        return cls.from_json(text, source=str(path))

    # -- reading it -----------------------------------------------------------------

    def __getitem__(self, key: str) -> Layers:
        if key not in ATTENTION_TYPES:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[Head]:
        for key in ATTENTION_TYPES:
            for layer, heads in enumerate(self[key]):
                for head in heads:
                    yield Head(key, layer, head)

    def __contains__(self, head: Head) -> bool:
        layers = self[head.type]
        return head.layer < len(layers) and head.head in layers[head.layer]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def types(self) -> tuple[str, ...]:
        """The types that the model has at all: a decoder of SSRUs has no dec-self."""
        return tuple(t for t in ATTENTION_TYPES if self[t])

    def counts(self) -> dict[str, int]:
        """Number of heads per type."""
        return {t: sum(len(layer) for layer in self[t]) for t in ATTENTION_TYPES}

    def masks(self, num_heads: Mapping[str, int]) -> dict[str, np.ndarray]:
        """``type -> bool [layers, num_heads[type]]``, true where a head exists."""
        result = {}
        for key in ATTENTION_TYPES:
            mask = np.zeros((len(self[key]), num_heads[key]), dtype=bool)
            for layer, heads in enumerate(self[key]):
                mask[layer, list(heads)] = True
            result[key] = mask
        return result

    def without(self, heads) -> "HeadLayout":
        """This layout less the given heads."""
        gone = set(heads)
        return HeadLayout.from_heads([h for h in self if h not in gone], self)

    def check_within(self, whole: "HeadLayout", source: str = "the head layout") -> None:
        """UserError when this names a layer or a head that ``whole`` does not have."""
        for key in ATTENTION_TYPES:
            if len(self[key]) != len(whole[key]):
                raise UserError(
                    f"{source} has {len(self[key])} layers of {flag(key)}, the model has {len(whole[key])}"
                )
        for head in self:
            if head not in whole:
                raise UserError(f"{source} names head {head}, which the model does not have")

    def to_dict(self) -> dict[str, list[list[int]]]:
        """The JSON form."""
        return {t: [list(layer) for layer in self[t]] for t in ATTENTION_TYPES}

    def to_json(self) -> str:
        """The JSON form as one line of text."""
        return json.dumps(self.to_dict())

    def table(self, whole: Optional["HeadLayout"] = None) -> str:
        """Text table, a line per layer; heads of ``whole`` that are missing here show as dots."""
        whole = whole or self
        types = whole.types
        columns = [[flag(t)] for t in types]
        depth = max(len(self[t]) for t in ATTENTION_TYPES)
        for column, key in zip(columns, types):
            for layer in range(depth):
                if layer >= len(whole[key]):
                    column.append("")
                    continue
                kept = set(self[key][layer])
                every = sorted(set(whole[key][layer]) | kept)
                column.append(" ".join(str(h) if h in kept else "." for h in every) or "-")
            column.append(f"{self.counts()[key]} of {whole.counts()[key]}")
        labels = ["layer"] + [str(n) for n in range(depth)] + ["heads"]
        widths = [max(map(len, column)) for column in columns]
        lines = []
        for row, label in enumerate(labels):
            cells = [column[row].ljust(width) for column, width in zip(columns, widths)]
            lines.append(f"{label:>5}  " + "  ".join(cells).rstrip())
        return "\n".join(lines)
