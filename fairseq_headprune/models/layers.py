"""fairseq's Transformer layers with our attention, or an SSRU in its place."""

import copy

from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)

from fairseq_headprune.nn.activations import MORE
from fairseq_headprune.nn.ssru import SSRU
from fairseq_headprune.nn.weight_storage import store_by_columns


def _known(cfg):
    """The options, with an activation function that fairseq has in place of one that it has not."""
    if str(cfg.activation_fn) in MORE:
        cfg = copy.copy(cfg)
        cfg.activation_fn = "linear"
    return cfg


class HeadEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer with our self-attention."""

    def __init__(self, cfg, return_fc=False):
        super().__init__(_known(cfg), return_fc)
        self.activation_fn = MORE.get(str(cfg.activation_fn), self.activation_fn)

    def build_self_attention(self, embed_dim, cfg):
        return cfg.attention_plan.build(
            "enc_self",
            embed_dim,
            cfg.encoder.attention_heads,
            dropout=cfg.attention_dropout,
            self_attention=True,
        )

    def make_generation_fast_(self, **kwargs):
        """Called once by fairseq before generation."""
        store_by_columns(self.fc1, self.fc2)


class HeadDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's decoder layer with our self-attention, or an SSRU, and our encoder attention."""

    def __init__(self, cfg, no_encoder_attn=False):
        super().__init__(_known(cfg), no_encoder_attn)
        self.activation_fn = MORE.get(str(cfg.activation_fn), self.activation_fn)

    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        assert not add_bias_kv and not add_zero_attn
        if cfg.attention_plan.extra["decoder_self"] == "ssru":
            return SSRU(embed_dim)
        return cfg.attention_plan.build(
            "dec_self",
            embed_dim,
            cfg.decoder.attention_heads,
            dropout=cfg.attention_dropout,
            self_attention=True,
        )

    def build_encoder_attention(self, embed_dim, cfg):
        return cfg.attention_plan.build(
            "dec_enc",
            embed_dim,
            cfg.decoder.attention_heads,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
        )

    def make_generation_fast_(self, need_attn: bool = False, **kwargs):
        """As fairseq's, and the feed-forward weights are laid out for few rows."""
        self.need_attn = need_attn
        store_by_columns(self.fc1, self.fc2)


def wrap_layer(layer, cfg):
    """Activation checkpointing and FSDP, as fairseq's builders apply them."""
    from fairseq.distributed import fsdp_wrap
    from fairseq.modules.checkpoint_activations import checkpoint_wrapper

    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    smallest = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    return fsdp_wrap(layer, min_num_params=smallest)
