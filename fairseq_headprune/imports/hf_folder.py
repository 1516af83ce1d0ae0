"""A Hugging Face folder of a ``MarianMTModel``, without the transformers package and without running
anything of it."""

import pickle
import re
from pathlib import Path

import numpy as np

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports import names, options, vocabulary, yaml_files
from fairseq_headprune.imports.source import Source, check


def read(folder) -> Source:
    """The model in a folder."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} has no config.json: of Marian's files, name the model itself (.npz or .bin)"
        )
    config = _json(folder / "config.json")
    ours = options.from_hf(config, folder)
    file = next(
        (folder / n for n in ("model.safetensors", "pytorch_model.bin") if (folder / n).is_file()), None
    )
    if file is None:
        raise UserError(f"{folder} has no weights: it needs model.safetensors or pytorch_model.bin")
    tensors, left = names.rename(_weights(file), names.from_hf)
    if ours.pop("share_source_target") and not ours["share_all_embeddings"]:
        raise options.refuse(folder, "source and target share embeddings that the output does not")
    if ours["share_decoder_input_output_embed"]:
        tensors.pop(names.OUTPUT, None)  # old files store the tied matrix again
    if names.OUTPUT_BIAS not in tensors:  # stock code would take zeros, and translate badly
        raise UserError(f"{file} is damaged: final_logits_bias is missing")
    tensors[names.OUTPUT_BIAS] = tensors[names.OUTPUT_BIAS].reshape(-1)
    own_target = (folder / "target_vocab.json").is_file() and not ours["share_all_embeddings"]
    source_words = vocabulary.read(folder / "vocab.json")
    target_words = vocabulary.read(folder / "target_vocab.json") if own_target else source_words
    ours["decoder_start"] = _start(config, target_words, folder)
    ours["position_encoding"] = _positions(tensors, folder)
    spm = [p if p.is_file() else None for p in (folder / "source.spm", folder / "target.spm")]
    languages = (
        _json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    )
    result = Source(
        file,
        ours,
        tensors,
        (source_words, target_words),
        (spm[0], spm[1]),
        (languages.get("source_lang"), languages.get("target_lang")),
    )
    check(result, left)
    return result


def _positions(tensors: dict[str, np.ndarray], folder) -> str:
    """Which sines: MarianMTModel's own, which it computes where a file stores none, or Marian's."""
    stored = [tensors.pop(name, None) for name in (names.ENCODER_POSITIONS, names.DECODER_POSITIONS)]
    tables = [table for table in stored if table is not None]
    for encoding in ("hf-marian", "marian"):
        if all(
            np.abs(table - sines(table.shape[0], table.shape[1], encoding)).max() < 1e-3 for table in tables
        ):
            return encoding
    raise options.refuse(folder, "its table of positions is not the sinusoidal one")


def sines(length: int, width: int, encoding: str) -> np.ndarray:
    """The table of positions ``[length, width]`` of MarianMTModel or of Marian (see `nn.positions`)."""
    half = width // 2
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(half) / (half - (encoding == "marian")))
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def _start(config, words, folder) -> str:
    """What the decoder begins with, for ``--decoder-start``."""
    start = config.get("decoder_start_token_id")
    word = words.words[start] if isinstance(start, int) and 0 <= start < len(words.words) else None
    known = {"<pad>": "pad", "</s>": "eos"}
    if word not in known:
        raise options.refuse(
            folder, f"its decoder starts with the word '{word}' (decoder_start_token_id {start})"
        )
    return known[word]


def _json(path: Path) -> dict:
    content = yaml_files.read_json(path, "give the folder as it was published")
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a configuration")
    return content


def _weights(path: Path) -> dict[str, np.ndarray]:
    """Name -> float32 array; nothing in the file is executed."""
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(str(path))
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # safetensors and torch fail in many ways on damaged files
        if isinstance(error, pickle.UnpicklingError) and "Unsupported" in str(error):
            what: re.Match | None = re.search(r"GLOBAL (\S+)", str(error))
            raise UserError(
                f"{path} is refused: it holds {what[1] if what else 'an object'}, which might run code"
            ) from None
        raise UserError(f"cannot read {path}: it is cut short or another kind of file") from None
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise UserError(f"{path} holds no weights of a model")
    return {name: tensor.float().numpy() for name, tensor in state.items()}
