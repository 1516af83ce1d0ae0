"""Which models relevance can be computed for; everything else is refused by name."""

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.nn.ssru import SSRU

_FORWARD = {
    TransformerEncoderBase: ("forward", "forward_scriptable", "forward_embedding"),
    TransformerDecoderBase: (
        "forward",
        "extract_features",
        "extract_features_scriptable",
        "output_layer",
    ),
    TransformerEncoderLayerBase: ("forward", "residual_connection"),
    TransformerDecoderLayerBase: ("forward", "residual_connection"),
}
"""Methods that our own forward pass repeats: a subclass that changes one computes something else."""


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
    _check_class(encoder, TransformerEncoderBase)
    _check_class(decoder, TransformerDecoderBase)
    for stack, base in (
        (encoder, TransformerEncoderLayerBase),
        (decoder, TransformerDecoderLayerBase),
    ):
        for i in range(len(stack.layers)):
            _check_class(stack.layers[i], base)
            _check_layer(stack.layers[i])
        if not len(stack.layers):
            raise UserError("relevance needs at least one layer in the encoder and in the decoder")
    _check_linear(decoder.output_projection, "the output projection")


def _stack_options(encoder, decoder):
    layers = [decoder.layers[i] for i in range(len(decoder.layers))]
    yield "--adaptive-softmax-cutoff", getattr(decoder, "adaptive_softmax", None) is not None
    yield "--cross-self-attention", getattr(decoder, "cross_self_attention", False)
    yield "--base-layers", any(type(layer).__name__ == "BaseLayer" for layer in layers)
    yield "--no-cross-attention", any(getattr(layer, "encoder_attn", layer) is None for layer in layers)
    for stack in (encoder, decoder):
        yield "--quant-noise-pq", getattr(stack, "quant_noise", None) is not None


def _check_class(module: nn.Module, base: type) -> None:
    # subclasses for the old argparse form only repeat the constructor, so methods are compared
    same = isinstance(module, base) and all(
        getattr(type(module), name) is getattr(base, name) or _is_ours(getattr(type(module), name))
        for name in _FORWARD[base]
    )
    if not same:
        raise UserError(
            f"relevance is not defined for {type(module).__name__}: it computes something else than "
            f"fairseq's {base.__name__}"
        )


def _is_ours(method) -> bool:
    # our models take shorter ways to the same result
    return method.__module__.split(".")[0] == __name__.split(".")[0]


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
    for name in ("self_attn", "encoder_attn"):
        attention = getattr(layer, name, None)
        if attention is None:
            continue
        if isinstance(attention, SSRU):
            _check_linear(attention.value, "the SSRU's value")
            continue
        _refuse("add_bias_kv", getattr(attention, "bias_k", None) is not None)
        _refuse("add_zero_attn", getattr(attention, "add_zero_attn", False))
        _refuse("xformers attention", getattr(attention, "use_xformers", False))
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
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
