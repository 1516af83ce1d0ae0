"""Options of the gated and the pruned Transformer: all of fairseq's, flat as its flags, plus ours."""

from argparse import Namespace
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer.transformer_config import (
    DecoderConfig,
    EncDecBaseConfig,
    QuantNoiseConfig,
    TransformerConfig,
)
from fairseq.utils import get_available_activation_fns
from omegaconf import II, OmegaConf

from fairseq_headprune.nn.activations import MORE

_NESTED = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}

# the stock command line derives these from other options; a fixed number would silently differ
_DERIVED = {
    "decoder_embed_dim": II("model.encoder_embed_dim"),
    "decoder_ffn_embed_dim": II("model.encoder_ffn_embed_dim"),
    "decoder_input_dim": II("model.decoder_embed_dim"),
    "decoder_output_dim": II("model.decoder_embed_dim"),
}


def _stock_fields():
    for outer in fields(TransformerConfig):
        if outer.name.startswith("_"):
            continue
        nested = _NESTED.get(outer.name)
        for inner in fields(nested) if nested else [outer]:
            if inner.name.startswith("_"):
                continue
            name = f"{outer.name}_{inner.name}" if nested else inner.name
            kind, default = inner.type, inner.default
            if inner.name == "layers_to_keep":
                kind = Optional[str]  # fairseq's builder splits it as text
            if inner.name == "activation_fn":
                kind = ChoiceEnum(get_available_activation_fns() + list(MORE))
            metadata = {"help": f"{name.replace('_', ' ')} (as in transformer)", **inner.metadata}
            if name in _DERIVED:
                kind, default = int, _DERIVED[name]
            assert default is not MISSING
            yield name, kind, field(default=default, metadata=metadata)


StockTransformerOptions = make_dataclass(
    "StockTransformerOptions", list(_stock_fields()), bases=(FairseqDataclass,)
)


@dataclass
class GatedTransformerConfig(StockTransformerOptions):
    """Stock Transformer options and those of gates, fixed heads and frozen parts."""

    gate_types: str = field(
        default="all",
        metadata={
            "help": "attention types whose heads get a gate: all, none, or any of "
            "enc-self,dec-self,dec-enc (default: all)"
        },
    )
    gate_temperature: float = field(
        default=0.33,
        metadata={"help": "temperature of the Hard Concrete gates, positive (default: 0.33)"},
    )
    gate_stretch_low: float = field(
        default=-0.1, metadata={"help": "lower stretch limit of the gates, below 0 (default: -0.1)"}
    )
    gate_stretch_high: float = field(
        default=1.1, metadata={"help": "upper stretch limit of the gates, above 1 (default: 1.1)"}
    )
    gate_init: float = field(
        default=2.0,
        metadata={
            "help": "initial log alpha of every gate; gates are open in evaluation when it is "
            "positive (default: 2.0, P(open) = 0.94)"
        },
    )
    gate_lr_scale: float = field(
        default=30.0,
        metadata={
            "help": "learning rate of log alpha as a multiple of the model's learning rate (default: 30)"
        },
    )
    freeze: str = field(
        default="none",
        metadata={
            "help": "parts whose parameters stay as they are: none, or any of "
            "encoder,decoder,embeddings; gates are always learned (default: none)"
        },
    )
    head_layout: str = field(
        default="",
        metadata={
            "help": "build only these heads: a JSON file (type -> per layer the head numbers), "
            "a checkpoint whose heads to copy, or the JSON itself (default: all heads)"
        },
    )
    decoder_self: str = field(
        default="attention",
        metadata={
            "help": "what decoder layers have where others have self-attention: attention or ssru, a "
            "recurrent unit without heads (default: attention)"
        },
    )
    decoder_start: str = field(
        default="eos",
        metadata={
            "help": "embedding of the decoder's first input: that of eos, of pad, or zero, a vector of "
            "zeros as in Marian (default: eos)"
        },
    )
    position_encoding: str = field(
        default="fairseq",
        metadata={"help": "sinusoidal positions as in fairseq, marian or hf-marian (default: fairseq)"},
    )
    output_bias: bool = field(default=False, metadata={"help": "the output projection has a bias"})
    no_unk: bool = field(default=False, metadata={"help": "never generate <unk>, as Marian"})


@dataclass
class PrunedTransformerConfig(GatedTransformerConfig):
    """As GatedTransformerConfig, without gates unless they are asked for."""

    gate_types: str = field(
        default="none",
        metadata={
            "help": "attention types whose remaining heads get a gate, to prune further (default: none)"
        },
    )


def transformer_config(flat) -> TransformerConfig:
    """Our flat options (DictConfig or Namespace) as the nested form that fairseq's modules take."""
    if OmegaConf.is_config(flat):
        flat = OmegaConf.to_container(flat, resolve=True)
    elif not isinstance(flat, dict):
        flat = vars(flat)
    return TransformerConfig.from_namespace(Namespace(**flat))
