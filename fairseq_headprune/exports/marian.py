"""A model as a Marian ``.npz``, with the vocabularies and the ``.yml`` that Marian wants beside it."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports import marian_npz, names, options, vocabulary
from fairseq_headprune.imports.source import Source

_OFF = (
    "layer-normalization output-omit-bias right-left skip tied-embeddings-src transformer-no-affine "
    "transformer-no-bias transformer-no-projection transformer-pool transformer-rnn-projection "
    "transformer-train-position-embeddings ulr"
).split()


def write(source: Source, out: Path) -> list[Path]:
    """The new file ``out``, and beside it ``OUT.decoder.yml`` and the vocabularies: whole, or nothing.

    UserError for what Marian cannot compute, and for files that are there already.
    """
    _refuse(source)
    arrays = dict(_renamed(name, array, source.options) for name, array in source.tensors.items())
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"{out} is a folder, or lies in none: name a file in an existing folder")
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as place:
        folder = Path(place)
        marian_npz.write(folder / out.name, yaml.safe_dump(_configuration(source)), arrays)
        vocabs = []
        for side, words, pieces in zip(("source", "target"), source.vocabularies, source.spm):
            if pieces is not None:
                shutil.copyfile(pieces, folder / f"{side}.spm")
            if pieces is not None and list(vocabulary.read(pieces).words) == list(words.words):
                vocabs.append(f"{side}.spm")
            else:
                name = "vocab.yml" if source.options["share_all_embeddings"] else f"vocab.{side}.yml"
                text = yaml.safe_dump(
                    {w: i for i, w in enumerate(words.words)}, allow_unicode=True, sort_keys=False
                )
                (folder / name).write_text(text, encoding="utf-8", newline="\n")
                vocabs.append(name)
        decoder = {"relative-paths": True, "models": [out.name], "vocabs": vocabs}
        (folder / f"{out.name}.decoder.yml").write_text(yaml.safe_dump(decoder), encoding="utf-8")
        written = sorted(folder.iterdir(), key=lambda path: path.name == out.name)  # the model last
        for path in written:
            if (out.parent / path.name).exists():
                raise UserError(f"{out.parent / path.name} exists already: write to an empty folder")
        for path in written:
            os.replace(path, out.parent / path.name)
    return [out.parent / path.name for path in written]


def _refuse(source: Source) -> None:
    o = source.options
    if o["position_encoding"] != "marian":
        what = "Marian computes other positions than MarianMTModel: export it for Hugging Face"
    elif o["decoder_start"] != "zero":
        what = "Marian's decoder starts with zeros, and this one with a word"
    elif o["activation_fn"] not in options.MARIAN_ACTIVATION.values():
        what = f"Marian has no activation function {o['activation_fn']}"
    elif o["encoder_attention_heads"] != o["decoder_attention_heads"]:
        what = "Marian has one number of heads for encoder and decoder"
    else:
        return
    raise UserError(f"{source.file} cannot be exported: {what}")


def _renamed(name: str, array: np.ndarray, o: dict[str, Any]) -> tuple[str, np.ndarray]:
    """Marian's name and form of our parameter: matrices ``[in, out]``, vectors ``[1, n]``."""
    if name in (names.ENCODER_EMBEDDING, names.DECODER_EMBEDDING):
        return "Wemb" if o["share_all_embeddings"] else f"{name.split('.')[0]}_Wemb", array
    whole = {names.OUTPUT: "decoder_ff_logit_out_W", names.OUTPUT_BIAS: "decoder_ff_logit_out_b"}
    return whole.get(name) or str(names.to_marian(name, o["ssru"])), array.T if array.ndim == 2 else array[
        None
    ]


def _configuration(source: Source) -> dict[str, Any]:
    """What ``special:model.yml`` says of a Transformer."""
    o = source.options
    activation = {ours: theirs for theirs, ours in options.MARIAN_ACTIVATION.items()}[o["activation_fn"]]
    return {
        **dict.fromkeys(_OFF, False),
        "type": "transformer",
        "version": "v1.12.0",
        "input-types": [],
        "dim-emb": o["encoder_embed_dim"],
        "dim-vocabs": [len(v.words) for v in source.vocabularies],
        "enc-depth": o["encoder_layers"],
        "dec-depth": o["decoder_layers"],
        "transformer-heads": o["encoder_attention_heads"],
        "transformer-dim-ffn": o["encoder_ffn_embed_dim"],
        "transformer-decoder-dim-ffn": o["decoder_ffn_embed_dim"],
        "transformer-ffn-depth": 2,
        "transformer-decoder-ffn-depth": 2,
        "transformer-ffn-activation": activation,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "dn" if o["layernorm_embedding"] else "d",
        "transformer-postprocess-top": "",
        "transformer-tied-layers": [],
        "transformer-guided-alignment-layer": "last",
        "transformer-decoder-autoreg": "rnn" if o["ssru"] else "self-attention",
        "dec-cell": "ssru" if o["ssru"] else "gru",
        "tied-embeddings-all": o["share_all_embeddings"],
        "tied-embeddings": o["share_decoder_input_output_embed"] and not o["share_all_embeddings"],
    }
