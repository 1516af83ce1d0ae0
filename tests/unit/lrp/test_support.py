"""Models that the rules are not defined for are refused by the name of the option."""

import importlib

import pytest
import torch
from torch import nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.lrp.support import PROVEN, check_model
from fairseq_headprune.nn.attention import HeadAttention
from tests.helpers.our_models import gated
from tests.helpers.small_models import small_transformer


@pytest.mark.parametrize(
    "option, values",
    [
        ("--adaptive-softmax-cutoff", dict(adaptive_softmax_cutoff="4,8")),
        ("--cross-self-attention", dict(cross_self_attention=True)),
        ("--no-cross-attention", dict(no_cross_attention=True)),
        ("--scale-attn", dict(scale_attn=True)),
        ("--scale-heads", dict(scale_heads=True)),
        ("--scale-fc", dict(scale_fc=True)),
        ("--scale-resids", dict(scale_resids=True)),
        ("--quant-noise-pq", dict(quant_noise_pq=0.1)),
    ],
)
def test_options(option, values):
    model = small_transformer(**values)
    with pytest.raises(UserError, match=option):
        check_model(model)


def test_parts():
    def refused(change, message):
        model = small_transformer()
        change(model)
        with pytest.raises(UserError, match=message):
            check_model(model)

    def base_layer(model):
        class BaseLayer(nn.Module):
            pass

        model.decoder.layers.append(BaseLayer())

    def other_decoder(model):
        class Other(type(model.decoder)):
            def extract_features(self, *args, **kwargs):
                raise NotImplementedError

        model.decoder.__class__ = Other

    def set_attention(name, value):
        def change(model):
            setattr(model.decoder.layers[1].self_attn, name, value)

        return change

    refused(base_layer, "--base-layers")
    refused(other_decoder, "Other")
    refused(set_attention("bias_k", torch.zeros(1)), "add_bias_kv")
    refused(set_attention("add_zero_attn", True), "add_zero_attn")
    refused(set_attention("use_xformers", True), "xformers")
    refused(lambda m: setattr(m.encoder.layers[0], "fc1", nn.Identity()), "fc1 is a Identity")


def test_a_class_of_our_own_is_refused_until_it_is_listed():
    class NewAttention(HeadAttention):
        pass

    model = gated(gate_types="all")
    model.encoder.layers[0].self_attn.__class__ = NewAttention
    with pytest.raises(UserError, match="not defined for NewAttention: it is proven for MultiheadAttention"):
        check_model(model)


@pytest.mark.parametrize("name", [name for names in PROVEN.values() for name in names])
def test_listed_classes_exist(name):
    module, _, kind = name.rpartition(".")
    assert getattr(importlib.import_module(module), kind).__module__ == module


def test_what_is_no_translation_model():
    with pytest.raises(UserError, match="Linear is not an encoder-decoder Transformer"):
        check_model(nn.Linear(2, 2))


def test_ours_pass():
    check_model(gated(gate_types="all"))
    check_model(small_transformer(encoder_layerdrop=0.5, checkpoint_activations=True))
