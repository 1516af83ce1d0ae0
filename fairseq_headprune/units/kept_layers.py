"""Layers to keep, as fairseq's --encoder-layers-to-keep and its twin name them: pure functions.

The layers kept are numbered anew from 0, in their order.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import HeadLayout

STACKS = {"encoder": ("enc_self",), "decoder": ("dec_self", "dec_enc")}


def parse_kept(text: str | None, layers: int, stack: str) -> tuple[int, ...] | None:
    """``0,2`` -> layer numbers in order, or None where all are kept; UserError for what ``layers`` lack."""
    if not text:
        return None
    option = f"--{stack}-layers-to-keep"
    words = [word.strip() for word in str(text).split(",")]
    if not all(word.isdecimal() for word in words) or len(set(map(int, words))) < len(words):
        raise UserError(f"{option} does not take '{text}': write different layer numbers, like 0,2,4")
    numbers = tuple(sorted(map(int, words)))
    if numbers[-1] >= layers:
        raise UserError(f"{option} names layer {numbers[-1]}, and the last of the {layers} is {layers - 1}")
    return numbers


def cut_layout(layout: HeadLayout, kept: Mapping[str, Sequence[int] | None]) -> HeadLayout:
    """The heads of the layers kept; a layout that has so few layers already is left as it is."""
    parts = {}
    for stack, keys in STACKS.items():
        numbers = kept[stack]
        for key in keys:
            if numbers is not None and len(layout[key]) > len(numbers):
                parts[key] = tuple(layout[key][n] for n in numbers if n < len(layout[key]))
    return replace(layout, **parts)


def cut_weights(weights: Mapping[str, Any], stack: str, numbers: Sequence[int]) -> dict[str, Any]:
    """A state dict with these layers of ``stack`` only; the other stack stays whole."""
    place = {str(old): str(new) for new, old in enumerate(numbers)}
    result = {}
    for name, value in weights.items():
        match = re.match(rf"{stack}\.layers\.(\d+)\.", name)
        if match is None:
            result[name] = value
        elif match[1] in place:
            result[f"{stack}.layers.{place[match[1]]}.{name[match.end() :]}"] = value
    return result
