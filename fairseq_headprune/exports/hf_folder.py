"""A model as a Hugging Face folder that the stock ``MarianMTModel`` and ``MarianTokenizer`` load."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.exports import trained
from fairseq_headprune.imports import folder, hf_folder, names, options
from fairseq_headprune.imports.source import Source
from fairseq_headprune.imports.vocabulary import EOS, PAD, UNK

STACKS = ("encoder", "decoder")


def write(source: Source, out: Path) -> list[Path]:
    """The new folder ``out``: config.json, generation_config.json, model.safetensors, vocabularies,
    SentencePiece models and tokenizer_config.json. UserError for what MarianMTModel cannot compute."""
    _refuse(source)
    source = _for_hugging_face(source)
    texts = _texts(source)
    weights = {n: torch.tensor(a, dtype=torch.float32) for n, a in _weights(source).items()}

    def fill(place: Path) -> None:
        save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
        for name, content in texts.items():
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (place / name).write_text(text, encoding="utf-8", newline="\n")
        for side, path in zip(("source", "target"), source.spm):
            if path is not None:
                shutil.copyfile(path, place / f"{side}.spm")

    folder.write_whole(out, fill, "OUT")
    return sorted(out.iterdir())


def _refuse(source: Source) -> None:
    o = source.options
    if o["ssru"]:
        what = "its decoder has SSRUs, and MarianMTModel only self-attention: export it for Marian"
    elif o["layernorm_embedding"]:
        what = "its embeddings are normalised, which MarianMTModel does not do: export it for Marian"
    elif o["activation_fn"] not in options.HF_ACTIVATION.values():
        what = f"MarianMTModel has no activation function {o['activation_fn']}"
    else:
        return
    raise UserError(f"{source.file} cannot be exported: {what}")


def _for_hugging_face(source: Source) -> Source:
    """The model with a word ``<pad>``, which MarianMTModel starts with.

    Special words have the same ids in both languages, as its one configuration wants; ``<pad>`` is last
    where the languages share their words, as in OPUS-MT. A new one is a vector of zeros, as Marian starts.
    """
    one_list = list(source.vocabularies[0].words) == list(source.vocabularies[1].words)

    def ordered(words):
        rest = [w for w in words if w not in (EOS, UNK, PAD)]
        return [EOS, UNK, *rest, PAD] if one_list else [EOS, UNK, PAD, *rest]

    one, other = (ordered(v.words) for v in source.vocabularies)
    result = trained.reordered(source, (one, other))
    start = result.tensors[names.DECODER_EMBEDDING][other.index(PAD)]
    if source.options["decoder_start"] == "zero" and start.any():
        raise UserError(
            f"{source.file} cannot be exported: its decoder starts with zeros, and <pad> is a word"
        )
    return result


def _weights(source: Source) -> dict[str, np.ndarray]:
    """The arrays under MarianMTModel's names. Marian's sines, which are not its own, are stored."""
    o, arrays = source.options, dict(source.tensors)
    result = {"final_logits_bias": arrays.pop(names.OUTPUT_BIAS)[None]}
    if names.OUTPUT in arrays:
        result["lm_head.weight"] = arrays.pop(names.OUTPUT)
    if o["share_all_embeddings"]:
        result["model.shared.weight"] = arrays.pop(names.ENCODER_EMBEDDING)
        del arrays[names.DECODER_EMBEDDING]
    if o["position_encoding"] == "marian":
        table = hf_folder.sines(o["max_source_positions"], o["encoder_embed_dim"], "marian")
        arrays[names.ENCODER_POSITIONS] = arrays[names.DECODER_POSITIONS] = table
    return result | {f"model.{name}": array for name, array in arrays.items()}


def _texts(source: Source) -> dict[str, Any]:
    """File -> content of the small ones."""
    o, (one, other) = source.options, (v.words for v in source.vocabularies)
    eos, unk, pad = (other.index(word) for word in (EOS, UNK, PAD))
    separate = one != other
    activation = {ours: theirs for theirs, ours in options.HF_ACTIVATION.items()}[o["activation_fn"]]
    start = eos if o["decoder_start"] == "eos" else pad
    ids = {
        "bos_token_id": eos,
        "eos_token_id": eos,
        "pad_token_id": pad,
        "decoder_start_token_id": start,
        "forced_eos_token_id": eos,
    }
    config = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "activation_function": activation,
        "d_model": o["encoder_embed_dim"],
        **{f"{s}_layers": o[f"{s}_layers"] for s in STACKS},
        **{f"{s}_attention_heads": o[f"{s}_attention_heads"] for s in STACKS},
        **{f"{s}_ffn_dim": o[f"{s}_ffn_embed_dim"] for s in STACKS},
        "vocab_size": len(one),
        "decoder_vocab_size": len(other),
        "max_position_embeddings": o["max_source_positions"],
        "static_position_embeddings": True,
        "scale_embedding": o["scale_embedding"],
        "share_encoder_decoder_embeddings": o["share_all_embeddings"],
        "tie_word_embeddings": o["share_decoder_input_output_embed"],
        "normalize_before": False,
        "is_encoder_decoder": True,
        "dropout": 0.1,
        **ids,
    }
    never = [[pad], [unk]] if o["no_unk"] else [[pad]]
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": source.languages[0],
        "target_lang": source.languages[1],
        "separate_vocabs": separate,
        "model_max_length": 512,
    }
    texts: dict[str, Any] = {
        "config.json": config,
        "generation_config.json": {**ids, "bad_words_ids": never, "max_length": 512},
        "tokenizer_config.json": tokenizer,
        "vocab.json": {word: i for i, word in enumerate(one)},
    }
    if separate:
        texts["target_vocab.json"] = {word: i for i, word in enumerate(other)}
    return texts
