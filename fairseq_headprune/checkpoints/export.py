"""Removed heads outside fairseq: a checkpoint as a CTranslate2 model.

CTranslate2 has one number of heads per stack, so heads cannot be absent there. What it gets is the
stock-sized model with zeros (``removal.remove_heads(dense=True)``): the same translations, and
its own speed and 8-bit weights instead of ours.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.files import writing
from fairseq_headprune.checkpoints import removal
from fairseq_headprune.checkpoints.configuration import configuration
from fairseq_headprune.units.layout import HeadLayout


def to_ctranslate2(
    state: dict[str, Any],
    data: str,
    output: str,
    quantization: str | None = "int8",
    layout: HeadLayout | None = None,
) -> None:
    """Write the folder ``output``, a CTranslate2 model of the heads that act in evaluation, or of
    ``layout``. UserError when CTranslate2 is missing or ``output`` exists."""
    try:
        from ctranslate2.converters import FairseqConverter
    except ImportError:
        raise UserError("CTranslate2 is not installed: pip install ctranslate2") from None
    if Path(output).exists():
        raise UserError(f"{output} exists already: choose another folder")
    dense = removal.remove_heads(state, layout, dense=True)
    with writing(output), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dense.pt")
        torch.save(dense, path)
        source, target = _languages(state)
        converter = FairseqConverter(path, str(data), source_lang=source, target_lang=target)
        converter.convert(str(output), quantization=quantization)


def _languages(state: dict[str, Any]):
    options = configuration(state).get("task") or {}
    return options.get("source_lang"), options.get("target_lang")


def size_of(path) -> int:
    """Bytes of a file, or of the files of a folder."""
    path = Path(path)
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
