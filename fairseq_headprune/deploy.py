"""Removed heads outside fairseq: a checkpoint as a CTranslate2 model.

CTranslate2 has one number of heads per stack, so heads cannot be absent there. What it gets is the
stock-sized model with zeros (``removal.remove_heads(dense=True)``): the same translations, and
its own speed and 8-bit weights instead of ours.
"""

import os
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, Optional

import torch

from fairseq_headprune import removal
from fairseq_headprune.errors import UserError
from fairseq_headprune.layout import HeadLayout


def stock_arguments(dense: Dict[str, Any], data: str) -> Namespace:
    """The configuration of a stock checkpoint as CTranslate2's converter reads it: flat, with
    ``data`` the folder of the dictionaries."""
    task = dense["cfg"]["task"]
    if not isinstance(task, dict):
        task = {"source_lang": None, "target_lang": None}
    options = {**task, **dense["cfg"]["model"]}
    options.update(task="translation", arch="transformer", data=str(data))
    return Namespace(**options)


def to_ctranslate2(
    state: Dict[str, Any],
    data: str,
    output: str,
    quantization: Optional[str] = "int8",
    layout: Optional[HeadLayout] = None,
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
    dense["args"] = stock_arguments(dense, data)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dense.pt")
        torch.save(dense, path)
        FairseqConverter(path, str(data)).convert(str(output), quantization=quantization)


def size_of(path) -> int:
    """Bytes of a file, or of the files of a folder."""
    path = Path(path)
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
