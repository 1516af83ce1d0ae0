"""Marian's ``.npz`` models: an array a parameter, and the text of ``model.yml`` as bytes."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports.marian_bin import CONFIGURATION


def read(path) -> tuple[str, dict[str, np.ndarray]]:
    """``(text of model.yml, name -> float32 array)``; matrices are ``[in, out]``. UserError for other files;
    nothing in the file is executed."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            raise UserError(f"{path} is refused: it holds Python objects, which might run code") from None
        raise UserError(
            f"cannot read {path} as a Marian .npz: it is cut short or another kind of file"
        ) from None
    except AttributeError:  # a single array loads as one
        raise UserError(f"cannot read {path} as a Marian .npz: it is a single array") from None
    text = arrays.pop(CONFIGURATION, None)
    if text is None:
        raise UserError(f"{path} does not say how its model is built: it has no {CONFIGURATION}")
    for name, array in arrays.items():
        if not np.issubdtype(array.dtype, np.floating):
            raise UserError(f"{path} is no float Marian model: {name} is {array.dtype}")
    return (
        text.tobytes().decode("utf-8", "replace").rstrip("\0"),
        {name: np.asarray(array, np.float32) for name, array in arrays.items()},
    )


def write(path, text: str, tensors: Mapping[str, np.ndarray]) -> None:
    """The same file again: float32, and the text with a final zero, as Marian wants it."""
    arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in tensors.items()}
    arrays[CONFIGURATION] = np.frombuffer(text.encode("utf-8") + b"\0", np.int8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    Path(path).write_bytes(buffer.getvalue())
