"""How a model is built: Marian's and Hugging Face's options -> ours, and refusals by name. Pure tables."""

from collections.abc import Mapping
from typing import Any

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports.yaml_files import as_list, is_true

CANNOT = "{path} cannot be imported: {what}"

_FLAGS = {
    "transformer-no-projection": "its attention has no output projection",
    "transformer-no-bias": "its projections have no bias",
    "transformer-no-affine": "its normalisation has no scale and bias",
    "transformer-rnn-projection": "its recurrent cell has an output projection",
    "transformer-pool": "it pools instead of attending (transformer-pool)",
    "transformer-disable-position-embeddings": "it has no positions",
    "ulr": "it has a universal language representation (ulr)",
    "right-left": "it translates from right to left",
    "skip": "its recurrent layers have skip connections",
    "layer-normalization": "its recurrent layers are normalised",
}
"""Flags of Marian that must be off."""

_ZERO = {
    "lemma-dim-emb": "its vocabulary is factored",
    "factors-dim-emb": "its vocabulary is factored",
    "transformer-alibi-shift": "its attention is biased by distance (ALiBi)",
}
"""Numbers of Marian that must be 0, empty or absent."""

MARIAN_ACTIVATION = {"relu": "relu", "swish": "swish", "gelu": "gelu_sigmoid"}
"""Marian's gelu is x sigmoid(1.702 x)."""
HF_ACTIVATION = {
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "quick_gelu": "gelu_sigmoid",
    "tanh": "tanh",
}


def refuse(path, what: str) -> UserError:
    """The sentence about an architecture that has no counterpart here."""
    return UserError(CANNOT.format(path=path, what=what))


def from_marian(config: Mapping[str, Any], path) -> dict[str, Any]:
    """Our options for the model that ``special:model.yml`` describes; UserError for what we cannot build."""
    kind = config.get("type", "")
    if kind != "transformer":
        recurrent = kind in ("s2s", "amun", "nematus", "char-s2s", "gru", "lstm") or kind.startswith(
            "multi-s2s"
        )
        raise refuse(
            path,
            f"its type is '{kind}', "
            f"{'a recurrent network' if recurrent else 'no Transformer for translation'}",
        )
    for name, what in _FLAGS.items():
        if is_true(config.get(name, False)):
            raise refuse(path, what)
    for name, what in _ZERO.items():
        if str(config.get(name, 0)).strip().lower() not in ("0", "0.0", "", "false"):
            raise refuse(path, what)
    if str(config.get("transformer-attention-mask", "default")) != "default":
        raise refuse(path, f"its attention is masked or biased ({config['transformer-attention-mask']})")
    tied = as_list(config.get("transformer-tied-layers"))
    if tied and [str(x) for x in tied] != [str(i + 1) for i in range(len(tied))]:
        raise refuse(path, "its decoder layers share their weights (transformer-tied-layers)")
    if as_list(config.get("input-types")) not in ([], ["sequence"], ["sequence", "sequence"]):
        raise refuse(
            path, f"it takes inputs of other types (input-types: {', '.join(config['input-types'])})"
        )
    if len(as_list(config.get("dim-vocabs"))) != 2:
        raise refuse(path, "it has not one source and one target vocabulary (dim-vocabs)")
    _check_ffn_depth(config, path)
    width, heads = _number(config, "dim-emb", path), _number(config, "transformer-heads", path)
    ffn = _number(config, "transformer-dim-ffn", path)
    learned = is_true(config.get("transformer-train-position-embeddings", False))
    return {
        **_sizes(
            _number(config, "enc-depth", path),
            _number(config, "dec-depth", path),
            width,
            heads,
            heads,
            ffn,
            int(config.get("transformer-decoder-dim-ffn", 0)) or ffn,
            path,
        ),
        "activation_fn": _activation(config.get("transformer-ffn-activation"), MARIAN_ACTIVATION, path),
        **_normalisation(config, path),
        **_embeddings(config),
        "ssru": _recurrent(config, path),
        "learned_positions": learned,
        "scale_embedding": not learned,
        "output_bias": not is_true(config.get("output-omit-bias", False)),
    }


def _sizes(
    encoder: int,
    decoder: int,
    width: int,
    encoder_heads: int,
    decoder_heads: int,
    encoder_ffn: int,
    decoder_ffn: int,
    path,
) -> dict[str, int]:
    for heads in (encoder_heads, decoder_heads):
        if width % heads:
            raise refuse(path, f"its width {width} is no multiple of its {heads} heads")
    return {
        "encoder_layers": encoder,
        "decoder_layers": decoder,
        "encoder_embed_dim": width,
        "decoder_embed_dim": width,
        "encoder_attention_heads": encoder_heads,
        "decoder_attention_heads": decoder_heads,
        "encoder_ffn_embed_dim": encoder_ffn,
        "decoder_ffn_embed_dim": decoder_ffn,
    }


def _number(config: Mapping[str, Any], name: str, path) -> int:
    try:
        value = int(config[name])
    except (KeyError, TypeError, ValueError):
        value = 0
    if value < 1:
        raise UserError(f"{path} is damaged: its configuration says '{config.get(name)}' for {name}")
    return value


def _activation(name: Any, table: Mapping[str, str], path) -> str:
    if name not in table:
        raise refuse(path, f"its activation function is '{name}'")
    return table[name]


def _check_ffn_depth(config: Mapping[str, Any], path) -> None:
    for name in ("transformer-ffn-depth", "transformer-decoder-ffn-depth"):
        depth = int(config.get(name, 2) or 0)
        if depth not in (0, 2) or (depth == 0 and "decoder" not in name):
            raise refuse(path, f"its feed-forward parts have {depth} layers ({name})")


def _normalisation(config: Mapping[str, Any], path) -> dict[str, bool]:
    """Letters: d dropout (nothing here), a residual sum, n norm (h highway, r root mean square: not ours)."""
    steps = {
        part: str(config.get(f"transformer-{part}", "")).replace("d", "")
        for part in ("preprocess", "postprocess", "postprocess-emb", "postprocess-top")
    }
    places = (steps["preprocess"], steps["postprocess"], steps["postprocess-top"])
    if steps["postprocess-emb"] not in ("", "n") or places != ("", "an", ""):
        before = places[0] == "n" and places[1] == "a"
        what = "it normalises before each block (pre-norm), whose arithmetic in Marian is not established"
        text = "its order of residual sums and norms is '{}', '{}', '{}'".format(*places)
        raise refuse(path, what if before else text)
    return {"normalize_before": False, "layernorm_embedding": steps["postprocess-emb"] == "n"}


def _embeddings(config: Mapping[str, Any]) -> dict[str, bool]:
    whole = is_true(config.get("tied-embeddings-all", False))
    return {
        "share_all_embeddings": whole,
        "share_source_target": whole or is_true(config.get("tied-embeddings-src", False)),
        "share_decoder_input_output_embed": whole or is_true(config.get("tied-embeddings", False)),
    }


def _recurrent(config: Mapping[str, Any], path) -> bool:
    """Whether the decoder has SSRUs in place of self-attention."""
    kind = config.get("transformer-decoder-autoreg", "self-attention")
    if kind == "average-attention":
        raise refuse(path, "its decoder has average attention, which has no heads and no counterpart here")
    if kind not in ("self-attention", "rnn"):
        raise refuse(path, f"its decoder has '{kind}' in place of self-attention")
    if kind == "rnn" and config.get("dec-cell") != "ssru":
        raise refuse(
            path,
            f"its decoder has the recurrent cell '{config.get('dec-cell')}', and only ssru is known here",
        )
    return kind == "rnn"


def from_hf(config: Mapping[str, Any], path) -> dict[str, Any]:
    """Our options for the ``config.json`` of a ``MarianMTModel``."""
    names = config.get("architectures") or ["none"]
    if config.get("model_type") != "marian" or "MarianMTModel" not in names:
        raise refuse(path, f"it is a {names[0]} ({config.get('model_type')}), no MarianMTModel")
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm", "extra_pos_embeddings"):
        if config.get(name):
            raise refuse(path, f"its configuration has {name}, which MarianMTModel does not compute")
    encoder, decoder = (
        [_number(config, f"{stack}_{what}", path) for what in ("layers", "attention_heads", "ffn_dim")]
        for stack in ("encoder", "decoder")
    )
    shared = bool(config.get("share_encoder_decoder_embeddings", True))
    tied = bool(config.get("tie_word_embeddings", True))
    return {
        **_sizes(
            encoder[0],
            decoder[0],
            _number(config, "d_model", path),
            encoder[1],
            decoder[1],
            encoder[2],
            decoder[2],
            path,
        ),
        "activation_fn": _activation(config.get("activation_function"), HF_ACTIVATION, path),
        "normalize_before": False,
        "layernorm_embedding": False,
        "share_all_embeddings": shared and tied,
        "share_source_target": shared,
        "share_decoder_input_output_embed": tied,
        "ssru": False,
        "learned_positions": False,
        "scale_embedding": bool(config.get("scale_embedding", False)),
        "output_bias": True,
    }
