"""Which models relevance can be computed for; everything else is refused by name."""

import torch
from torch import nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.nn.ssru import SSRU
from fairseq_headprune.units.anatomy import PLACES, PROJECTIONS

PROVEN = {
    "encoder": (
        "fairseq.models.transformer.transformer_encoder.TransformerEncoderBase",
        "fairseq.models.transformer.transformer_encoder.TransformerEncoder",
        "fairseq_headprune.models.gated_transformer.HeadEncoder",
    ),
    "decoder": (
        "fairseq.models.transformer.transformer_decoder.TransformerDecoderBase",
        "fairseq.models.transformer.transformer_decoder.TransformerDecoder",
        "fairseq_headprune.models.gated_transformer.HeadDecoder",
    ),
    "encoder layer": (
        "fairseq.modules.transformer_layer.TransformerEncoderLayerBase",
        "fairseq.modules.transformer_layer.TransformerEncoderLayer",
        "fairseq_headprune.models.layers.HeadEncoderLayer",
    ),
    "decoder layer": (
        "fairseq.modules.transformer_layer.TransformerDecoderLayerBase",
        "fairseq.modules.transformer_layer.TransformerDecoderLayer",
        "fairseq_headprune.models.layers.HeadDecoderLayer",
    ),
    "attention": (
        "fairseq.modules.multihead_attention.MultiheadAttention",
        "fairseq_headprune.nn.attention.HeadAttention",
        "fairseq_headprune.nn.ssru.SSRU",
    ),
}
"""Classes whose relevance is tested against a slow definition, by part of a model. A subclass may compute
something else, so it is refused until it is listed here, ours included."""


def check_model(model: nn.Module) -> None:
    """UserError naming the first part or option of ``model`` that the rules are not defined for."""
    encoder, decoder = getattr(model, "encoder", None), getattr(model, "decoder", None)
    if encoder is None or decoder is None or not hasattr(decoder, "layers"):
        raise UserError(
            f"{type(model).__name__} is not an encoder-decoder Transformer: relevance needs a model "
            "of arch transformer, gated_transformer or pruned_transformer"
        )
    for option, present in _stack_options(encoder, decoder):
        _refuse(option, present)
    for part, stack in (("encoder", encoder), ("decoder", decoder)):
        _check_class(stack, part)
        if not len(stack.layers):
            raise UserError("relevance needs at least one layer in the encoder and in the decoder")
        for i in range(len(stack.layers)):  # going through them would drop some, with --encoder-layerdrop
            _check_class(stack.layers[i], f"{part} layer")
            _check_layer(stack.layers[i])
    _check_linear(decoder.output_projection, "the output projection")


def _stack_options(encoder, decoder):
    layers = [decoder.layers[i] for i in range(len(decoder.layers))]
    yield "--adaptive-softmax-cutoff", getattr(decoder, "adaptive_softmax", None) is not None
    yield "--cross-self-attention", getattr(decoder, "cross_self_attention", False)
    yield "--base-layers", any(type(layer).__name__ == "BaseLayer" for layer in layers)
    yield "--no-cross-attention", any(getattr(layer, "encoder_attn", layer) is None for layer in layers)
    for stack in (encoder, decoder):
        yield "--quant-noise-pq", getattr(stack, "quant_noise", None) is not None


def _check_class(module: nn.Module, part: str) -> None:
    kind = type(module)
    if f"{kind.__module__}.{kind.__qualname__}" not in PROVEN[part]:
        raise UserError(
            f"relevance is not defined for {kind.__name__}: it is proven for "
            + ", ".join(name.rpartition(".")[2] for name in PROVEN[part])
        )


def _check_layer(layer: nn.Module) -> None:
    for option, name in (
        ("--scale-attn", "attn_ln"),
        ("--scale-heads", "c_attn"),
        ("--scale-fc", "ffn_layernorm"),
        ("--scale-resids", "w_resid"),
    ):
        _refuse(option, getattr(layer, name, None) is not None)
    for name in ("fc1", "fc2"):
        _check_linear(getattr(layer, name), name)
    for name in sorted({place.attribute for place in PLACES.values()}):
        attention = getattr(layer, name, None)
        if attention is None:
            continue
        _check_class(attention, "attention")
        if isinstance(attention, SSRU):
            _check_linear(attention.value, "the SSRU's value")
            continue
        _refuse("add_bias_kv", getattr(attention, "bias_k", None) is not None)
        _refuse("add_zero_attn", getattr(attention, "add_zero_attn", False))
        _refuse("xformers attention", getattr(attention, "use_xformers", False))
        for part in PROJECTIONS:
            _check_linear(getattr(attention, part), f"{name}.{part}")


def _check_linear(module: nn.Module, name: str) -> None:
    if not isinstance(module, nn.Linear) or not torch.is_floating_point(module.weight):
        raise UserError(
            f"relevance needs plain linear layers and {name} is a {type(module).__name__}: load the "
            "model without --quant-noise-scalar or other quantisation"
        )


def _refuse(option: str, present: bool) -> None:
    if present:
        raise UserError(f"relevance is not defined for models with {option}; use a model without it")
