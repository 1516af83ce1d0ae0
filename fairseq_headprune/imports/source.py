"""A model of another program, read: what is the same for Marian and Hugging Face from here on."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports import names
from fairseq_headprune.imports.vocabulary import Vocabulary


@dataclass
class Source:
    """``options``: see `options`. ``tensors``: our name -> array, embeddings in the source's order of words.
    ``spm``: SentencePiece models of source and target, where there are any. ``file``: the one with the
    weights."""

    file: Path
    options: dict[str, Any]
    tensors: dict[str, np.ndarray]
    vocabularies: tuple[Vocabulary, Vocabulary]
    spm: tuple[Path | None, Path | None]
    languages: tuple[str | None, str | None] = (None, None)
    notes: list[str] = field(default_factory=list)


def expected_shapes(o: dict[str, Any], words: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    """Our name -> shape of every tensor that a model with these options and vocabularies of so many
    words has, but for positions."""
    width = o["encoder_embed_dim"]
    shapes: dict[str, tuple[int, ...]] = {
        names.ENCODER_EMBEDDING: (words[0], width),
        names.DECODER_EMBEDDING: (words[1], width),
    }

    def linear(name, out, into):
        shapes[name + ".weight"], shapes[name + ".bias"] = (out, into), (out,)

    def norm(name):
        shapes[name + ".weight"] = shapes[name + ".bias"] = (width,)

    for stack in ("encoder", "decoder"):
        if o["layernorm_embedding"]:
            norm(f"{stack}.layernorm_embedding")
        for layer in range(o[f"{stack}_layers"]):
            start, ffn = f"{stack}.layers.{layer}", o[f"{stack}_ffn_embed_dim"]
            linear(f"{start}.fc1", ffn, width)
            linear(f"{start}.fc2", width, ffn)
            norm(f"{start}.final_layer_norm")
            for part in ("self_attn", "encoder_attn") if stack == "decoder" else ("self_attn",):
                norm(f"{start}.{part}_layer_norm")
                if part == "self_attn" and stack == "decoder" and o["ssru"]:
                    linear(f"{start}.{part}.forget", width, width)
                    shapes[f"{start}.{part}.value.weight"] = (width, width)
                    continue
                for projection in ("q", "k", "v", "out"):
                    linear(f"{start}.{part}.{projection}_proj", width, width)
    if not o["share_decoder_input_output_embed"]:
        shapes[names.OUTPUT] = (words[1], width)
    if o["output_bias"]:
        shapes[names.OUTPUT_BIAS] = (words[1],)
    return shapes


def check(source: Source, left: list[str]) -> None:
    """UserError when the tensors are not exactly those of the model that the options describe."""
    if left:
        raise UserError(f"{source.file} cannot be imported: it has {left[0]}, which has no counterpart here")
    words = tuple(len(v.words) for v in source.vocabularies)
    wanted = expected_shapes(source.options, words)
    positions = (names.ENCODER_POSITIONS, names.DECODER_POSITIONS)
    if source.options["learned_positions"]:
        wanted.update({name: source.tensors[name].shape for name in positions if name in source.tensors})
    for name, shape in wanted.items():
        array = source.tensors.get(name)
        if array is None:
            raise UserError(f"{source.file} is damaged: {name} is missing")
        if array.shape != shape:
            _explain(source, name, array.shape, shape)
        if not np.isfinite(array).all():
            raise UserError(f"{source.file} is damaged: {name} is not finite")
    extra = sorted(set(source.tensors) - set(wanted) - set(positions))
    if extra:
        raise UserError(
            f"{source.file} cannot be imported: its configuration does not account for {extra[0]}"
        )


def _explain(source: Source, name: str, has, wanted) -> None:
    for vocabulary, table in zip(source.vocabularies, (names.ENCODER_EMBEDDING, names.DECODER_EMBEDDING)):
        if name == table and has[1:] == wanted[1:]:
            raise UserError(
                f"{vocabulary.path} has {wanted[0]:,} words and the model {has[0]:,}: name its own "
                "vocabulary with --vocabs"
            )
    raise UserError(f"{source.file} is damaged: {name} has the shape {list(has)}, not {list(wanted)}")
