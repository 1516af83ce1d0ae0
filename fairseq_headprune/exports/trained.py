"""A checkpoint for an imported model's words as a `Source`: the way back of `imports.checkpoint`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading, removal
from fairseq_headprune.checkpoints.configuration import configuration
from fairseq_headprune.imports import checkpoint, names, vocabulary
from fairseq_headprune.imports.source import Source
from fairseq_headprune.imports.vocabulary import EOS, PAD, SPECIAL, UNK, Vocabulary
from fairseq_headprune.models.config import GatedTransformerConfig

_COPIED = (
    "encoder_layers decoder_layers encoder_embed_dim decoder_embed_dim encoder_attention_heads "
    "decoder_attention_heads encoder_ffn_embed_dim decoder_ffn_embed_dim share_all_embeddings "
    "share_decoder_input_output_embed layernorm_embedding activation_fn position_encoding decoder_start "
    "max_source_positions max_target_positions no_unk"
).split()


def read(folder: Path, path: Path | None = None) -> tuple[Source, int]:
    """The model of ``folder``, or of another checkpoint ``path`` for its words; and how many heads it has.

    Heads that are removed, or whose gates are closed, are zeros. UserError when the folder was not
    imported, or the checkpoint has other words.
    """
    first = _load(folder / "model.pt", folder)
    state = _load(path, folder) if path else first
    task = configuration(first).get("task") or {}
    languages = (str(task.get("source_lang")), str(task.get("target_lang")))
    layout = reading.open_layout(state)
    weights = removal.dense_weights(state, layout)
    tensors = {
        n: w.float().numpy() for n, w in weights.items() if not n.endswith((".version", "._float_tensor"))
    }
    options = _options(state, path or folder / "model.pt")
    present = _present(first["model"])
    if options["share_decoder_input_output_embed"]:
        tensors.pop(names.OUTPUT, None)
    tensors.setdefault(names.OUTPUT_BIAS, np.zeros(len(tensors[names.DECODER_EMBEDDING]), np.float32))
    spm = [p if p.is_file() else None for p in (folder / "source.spm", folder / "target.spm")]
    stored, wanted = [], []
    for language, pieces, table in zip(languages, spm, (names.ENCODER_EMBEDDING, names.DECODER_EMBEDDING)):
        words = _vocabulary(folder / f"dict.{language}.txt", pieces, present)
        rows = [*SPECIAL, *[w for w in words if w not in SPECIAL]]
        if len(rows) != len(tensors[table]):
            raise UserError(
                f"{path} has {len(tensors[table]):,} words and {folder} {len(rows):,}: name a checkpoint "
                "of the folder's model"
            )
        stored.append(Vocabulary(rows, [1] * len(rows), "", folder))
        wanted.append(words)
    file = path or folder / "model.pt"
    source = Source(file, options, tensors, (stored[0], stored[1]), (spm[0], spm[1]), languages)
    return reordered(source, (wanted[0], wanted[1])), len(layout)


def reordered(source: Source, words: tuple[list[str], list[str]]) -> Source:
    """The same model with its words in another order. A word that it lacks gets a vector of zeros and can
    not be generated; a word that is left out is gone."""
    arrays, vocabularies = dict(source.tensors), []
    sides = (
        ((names.ENCODER_EMBEDDING, 0.0),),
        ((names.DECODER_EMBEDDING, 0.0), (names.OUTPUT, 0.0), (names.OUTPUT_BIAS, checkpoint.ABSENT_BIAS)),
    )
    for old, new, tables in zip(source.vocabularies, words, sides):
        number = {word: i for i, word in enumerate(old.words)}
        order = [number.get(word, -1) for word in new]
        for name, fill in tables:
            if name in arrays:
                arrays[name] = checkpoint.reorder(arrays[name], order, fill)
        vocabularies.append(Vocabulary(new, [1] * len(new), "", old.path))
    return replace(source, tensors=arrays, vocabularies=(vocabularies[0], vocabularies[1]))


def _load(path: Path, folder: Path) -> dict[str, Any]:
    if not (folder / "model.pt").is_file():
        raise UserError(f"{folder} has no model.pt: name a folder that headprune import wrote")
    return reading.load_checkpoint(path)


def _options(state: dict[str, Any], path) -> dict[str, Any]:
    """As `imports.options` gives them. UserError for forms that neither Marian nor MarianMTModel has."""
    given, defaults = reading.model_options(state), GatedTransformerConfig()

    def value(name):
        found = given.get(name)
        return getattr(defaults, name) if found is None else found

    refused = {
        name: value(name)
        for name in (
            *("encoder_normalize_before", "decoder_normalize_before", "encoder_learned_pos"),
            *("decoder_learned_pos", "no_token_positional_embeddings", "adaptive_softmax_cutoff"),
        )
    }
    refused["position_encoding fairseq"] = value("position_encoding") == "fairseq"
    for name, present in refused.items():
        if present:
            raise UserError(f"{path} cannot be exported: it was built with --{name.replace('_', '-')}")
    return {
        **{name: value(name) for name in _COPIED},
        "normalize_before": False,
        "ssru": value("decoder_self") == "ssru",
        "learned_positions": False,
        "scale_embedding": not value("no_scale_embedding"),
        "output_bias": True,
    }


def _present(model: dict[str, torch.Tensor]) -> dict[str, bool]:
    """Whether ``<s>`` and ``<pad>`` are words of the model that was imported (see `imports.checkpoint`)."""
    bias = model.get(names.OUTPUT_BIAS)
    return {
        w: bias is not None and float(bias[SPECIAL.index(w)]) > checkpoint.ABSENT_BIAS / 2
        for w in ("<s>", PAD)
    }


def _vocabulary(dictionary: Path, pieces: Path | None, present: dict[str, bool]) -> list[str]:
    """Words of a dictionary in the order of its SentencePiece model where it was made from that, else
    ``</s>``, ``<unk>``, the dictionary's, and those of `_present`."""
    try:
        text = dictionary.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {dictionary}: {error.strerror}") from None
    if pieces is not None:
        own = vocabulary.read(pieces)
        if vocabulary.dictionary(own) == text:
            return list(own.words)
    words = [vocabulary.unreadable(line.rsplit(" ", 1)[0]) for line in text.split("\n")[:-1]]
    return [EOS, UNK, *words, *[w for w in ("<s>", PAD) if present[w]]]
