"""Parameter names: Marian's and Hugging Face's -> ours. Pure tables.

Ours are fairseq's; what fairseq has no name for (recurrent cell, output bias) is what our models add.
Embeddings keep the source's order of words here.
"""

import re
from collections.abc import Mapping

import numpy as np

ENCODER_EMBEDDING = "encoder.embed_tokens.weight"
DECODER_EMBEDDING = "decoder.embed_tokens.weight"
OUTPUT = "decoder.output_projection.weight"
OUTPUT_BIAS = "decoder.output_projection.bias"
ENCODER_POSITIONS = "encoder.embed_positions.weight"
DECODER_POSITIONS = "decoder.embed_positions.weight"

_ATTENTION = {"self": "self_attn", "context": "encoder_attn"}
_NORM = {"scale": "weight", "bias": "bias"}
_FFN = {"W1": "fc1.weight", "b1": "fc1.bias", "W2": "fc2.weight", "b2": "fc2.bias"}
SSRU = {"W": "self_attn.value.weight", "Wf": "self_attn.forget.weight", "bf": "self_attn.forget.bias"}
"""The recurrent cell in place of a decoder's self-attention: c = f c' + (1 - f) x W,
f = sigmoid(x Wf + bf)."""

_MARIAN = [
    (
        r"(self|context)_W([qkvo])",
        lambda m: f"{_ATTENTION[m[1]]}.{'out' if m[2] == 'o' else m[2]}_proj.weight",
    ),
    (r"(self|context)_b([qkvo])", lambda m: f"{_ATTENTION[m[1]]}.{'out' if m[2] == 'o' else m[2]}_proj.bias"),
    (r"(self|context)_Wo_ln_(scale|bias)(?:_pre)?", lambda m: f"{_ATTENTION[m[1]]}_layer_norm.{_NORM[m[2]]}"),
    (r"ffn_(W1|b1|W2|b2)", lambda m: _FFN[m[1]]),
    (r"ffn_ffn_ln_(scale|bias)(?:_pre)?", lambda m: f"final_layer_norm.{_NORM[m[1]]}"),
    (r"rnn_(W|Wf|bf)", lambda m: SSRU[m[1]]),
    (r"rnn_ffn_ln_(scale|bias)(?:_pre)?", lambda m: f"self_attn_layer_norm.{_NORM[m[1]]}"),
]
_MARIAN_WHOLE = {
    "encoder_Wemb": [ENCODER_EMBEDDING],
    "decoder_Wemb": [DECODER_EMBEDDING],
    "Wemb": [ENCODER_EMBEDDING, DECODER_EMBEDDING],
    "Wpos": [ENCODER_POSITIONS, DECODER_POSITIONS],
    "decoder_ff_logit_out_W": [OUTPUT],
    "decoder_ff_logit_out_b": [OUTPUT_BIAS],
}


def from_marian(name: str) -> list[str]:
    """Our names of Marian's parameter; none when we have no place for it."""
    if name in _MARIAN_WHOLE:
        return _MARIAN_WHOLE[name]
    norm = re.fullmatch(r"(encoder|decoder)_(top|emb)_ln_(scale|bias)(?:_pre)?", name)
    if norm:
        return [f"{norm[1]}.{'layer_norm' if norm[2] == 'top' else 'layernorm_embedding'}.{_NORM[norm[3]]}"]
    layer = re.fullmatch(r"(encoder|decoder)_l([1-9]\d*)_(\w+)", name)
    if layer:
        for pattern, ours in _MARIAN:
            match = re.fullmatch(pattern, layer[3])
            if match:
                return [f"{layer[1]}.layers.{int(layer[2]) - 1}.{ours(match)}"]
    return []


def marian_shape(name: str, array: np.ndarray) -> np.ndarray:
    """Marian's array as ours: matrices ``[in, out]`` become ``[out, in]``, rows ``[1, n]`` become ``[n]``."""
    if name.endswith(("Wemb", "Wpos")):
        return array
    if re.search(r"_(W[a-zA-Z0-9]*)$", name):
        return np.ascontiguousarray(array.T)
    return array.reshape(-1)


def to_marian(name: str, ssru: bool = False) -> str | None:
    """Marian's name of our parameter of a layer or norm; None for embeddings, positions and output. ``ssru``:
    the decoder has SSRUs, whose norm is named otherwise."""
    norms = {"weight": "scale", "bias": "bias"}
    top = re.fullmatch(r"(encoder|decoder)\.(layer_norm|layernorm_embedding)\.(weight|bias)", name)
    if top:
        which = "top" if top[2] == "layer_norm" else "emb"
        return f"{top[1]}_{which}_ln_{norms[top[3]]}" + ("_pre" if which == "emb" else "")
    layer = re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+)", name)
    if not layer:
        return None
    start, rest = f"{layer[1]}_l{int(layer[2]) + 1}_", layer[3]
    for table, kind in ((_FFN, "ffn_"), (SSRU, "rnn_")):
        for theirs, ours in table.items():
            if rest == ours:
                return start + kind + theirs
    match = re.fullmatch(r"(self_attn|encoder_attn)\.(q|k|v|out)_proj\.(weight|bias)", rest)
    if match:
        where = "self" if match[1] == "self_attn" else "context"
        return f"{start}{where}_{'W' if match[3] == 'weight' else 'b'}{match[2][0]}"
    match = re.fullmatch(r"(self_attn|encoder_attn|final)_layer_norm\.(weight|bias)", rest)
    if match:
        where = {"self_attn": "self_Wo", "encoder_attn": "context_Wo", "final": "ffn_ffn"}[match[1]]
        if ssru and rest.startswith("self_attn") and layer[1] == "decoder":
            where = "rnn_ffn"
        return f"{start}{where}_ln_{norms[match[2]]}"
    return None


_HF_WHOLE = {
    "model.shared.weight": [ENCODER_EMBEDDING, DECODER_EMBEDDING],
    "lm_head.weight": [OUTPUT],
    "final_logits_bias": [OUTPUT_BIAS],
}


def from_hf(name: str) -> list[str]:
    """Our names of a parameter of ``MarianMTModel``: fairseq's with ``model.`` before them."""
    if name in _HF_WHOLE:
        return _HF_WHOLE[name]
    if re.fullmatch(
        r"model\.(encoder|decoder)\.(layers\.\d+\..+|embed_tokens\.weight|embed_positions\.weight)", name
    ):
        return [name[len("model.") :]]
    return []


def rename(tensors: Mapping[str, np.ndarray], table) -> tuple[dict[str, np.ndarray], list[str]]:
    """``(our name -> array, names without a place)``; a name of its own goes before a shared one."""
    renamed: dict[str, np.ndarray] = {}
    left = []
    for name in sorted(tensors, key=lambda n: -len(table(n))):  # shared names first, overwritten by own ones
        ours = table(name)
        if not ours:
            left.append(name)
        for new in ours:
            renamed[new] = tensors[name]
    return renamed, left
