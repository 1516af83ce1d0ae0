"""``--arch gated_transformer``: fairseq's Transformer with our attention in every layer."""

import logging
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import (
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModelBase,
)
from torch import Tensor, nn

from fairseq_headprune.models import freezing
from fairseq_headprune.models.config import GatedTransformerConfig, transformer_config
from fairseq_headprune.models.kept_layers import keep_layers, keep_weights
from fairseq_headprune.models.layers import HeadDecoderLayer, HeadEncoderLayer, wrap_layer
from fairseq_headprune.models.layout_source import embed_layout, read_layout
from fairseq_headprune.models.plan import make_plan
from fairseq_headprune.nn import decoder_step
from fairseq_headprune.nn.positions import DecoderEmbedding, Positions
from fairseq_headprune.nn.weight_storage import by_columns
from fairseq_headprune.units.anatomy import belongs_to_gates
from fairseq_headprune.units.target import LearnedTarget

logger = logging.getLogger(__name__)

SEARCH = "headprune.search"
"""Key of a search's state among the incremental state of a decoder."""


class HeadEncoder(TransformerEncoderBase):
    """fairseq's encoder with our layers; in beam search its output is kept once per sentence."""

    def __init__(self, cfg, dictionary, embed_tokens, return_fc=False):
        super().__init__(cfg, dictionary, embed_tokens, return_fc)
        use_positions(self, cfg, cfg.encoder)
        self.beam_size = 1

    def build_encoder_layer(self, cfg):
        return wrap_layer(HeadEncoderLayer(cfg, return_fc=self.return_fc), cfg)

    def set_beam_size(self, beam_size: int):
        """Told by the sequence generator how many hypotheses share one sentence."""
        self.beam_size = beam_size

    @torch.jit.export
    def reorder_encoder_out(self, encoder_out: Dict[str, List[Tensor]], new_order):
        """As fairseq's, but beams of a sentence share its row.

        The first call of a search asks for ``beam_size`` copies of every sentence. They are not
        made: the output is marked as shared, and later calls pick sentences instead of beams.
        """
        shared = "shared" in encoder_out and len(encoder_out["shared"]) > 0
        sentences = encoder_out["encoder_out"][0].size(1)
        order = new_order
        if self.beam_size > 1:
            if new_order.numel() == sentences * self.beam_size:
                encoder_out["shared"] = [torch.ones(1)]
                return encoder_out
            if shared:
                order = new_order.view(-1, self.beam_size)[:, 0] // self.beam_size
        states: List[Tensor] = []
        for state in encoder_out["encoder_states"]:
            states.append(state.index_select(1, order))
        result: Dict[str, List[Tensor]] = {"encoder_states": states}
        for name in ["encoder_padding_mask", "encoder_embedding", "src_tokens", "src_lengths"]:
            part: List[Tensor] = []
            for x in encoder_out[name]:
                part.append(x.index_select(0, order))
            result[name] = part
        result["encoder_out"] = [encoder_out["encoder_out"][0].index_select(1, order)]
        if shared:
            result["shared"] = encoder_out["shared"]
        return result


class HeadDecoder(TransformerDecoderBase):
    """fairseq's decoder with our layers, and a shorter way through them in beam search."""

    def __init__(self, cfg, dictionary, embed_tokens, no_encoder_attn=False, output_projection=None):
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn, output_projection)
        use_positions(self, cfg, cfg.decoder)
        start = cfg.attention_plan.extra["decoder_start"]
        if start != "eos":
            instead = dictionary.pad() if start == "pad" else -1
            self.embed_tokens = DecoderEmbedding(self.embed_tokens, dictionary.eos(), instead)
        if cfg.attention_plan.extra["output_bias"]:
            self.output_projection.bias = nn.Parameter(torch.zeros(len(dictionary)))
        self.never: int = dictionary.unk() if cfg.attention_plan.extra["no_unk"] else -1
        self.register_buffer("output_weight", None, persistent=False)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        return wrap_layer(HeadDecoderLayer(cfg, no_encoder_attn), cfg)

    def make_generation_fast_(self, **kwargs):
        """Called once by fairseq before generation: a copy of the output projection, which is
        usually the table of embeddings too, is stored as products with few rows want it."""
        if self.adaptive_softmax is None and type(self.output_projection) is nn.Linear:
            self.output_weight = by_columns(self.output_projection.weight)

    def extract_features(
        self,
        prev_output_tokens,
        encoder_out: Optional[Dict[str, List[Tensor]]],
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        full_context_alignment: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ):
        """As fairseq's; a step of a search that began at its first token takes the shorter way."""
        if not torch.jit.is_scripting():
            if incremental_state is not None and alignment_layer is None and alignment_heads is None:
                search = self._search(incremental_state, encoder_out, prev_output_tokens)
                if search is not None:
                    x, attention = decoder_step.advance(self, search, prev_output_tokens)
                    return x, {"attn": [attention], "inner_states": [x], "search": []}
        x, extra = self.extract_features_scriptable(
            prev_output_tokens,
            encoder_out,
            incremental_state,
            full_context_alignment,
            alignment_layer,
            alignment_heads,
        )
        if incremental_state is not None:
            nothing: List[Optional[Tensor]] = []
            extra["search"] = nothing
        return x, extra

    def get_normalized_probs(
        self,
        net_output: Tuple[Tensor, Optional[Dict[str, List[Optional[Tensor]]]]],
        log_probs: bool,
        sample: Optional[Dict[str, Tensor]] = None,
    ):
        """As fairseq's. With --no-unk a step of a search gets nothing for <unk>, while references are scored
        as the model has it."""
        probs = self.get_normalized_probs_scriptable(net_output, log_probs, sample)
        extra = net_output[1]
        if self.never >= 0 and extra is not None and "search" in extra:
            probs = probs.clone()
            probs[..., self.never] = float("-inf") if log_probs else 0.0
        return probs

    def output_layer(self, features):
        """Project features to the vocabulary size."""
        weight = self.output_weight
        if weight is not None:
            return F.linear(features, weight, self.output_projection.bias)
        if self.adaptive_softmax is None:
            return self.output_projection(features)
        return features

    @torch.jit.unused
    def _search(self, incremental_state, encoder_out, tokens):
        """The search that this state belongs to, begun if this is its first token; or None."""
        search = incremental_state.get(SEARCH)
        if search is None:
            fresh = not incremental_state and not self.training and tokens.size(1) == 1
            if fresh and encoder_out is not None and decoder_step.can_step(self):
                search = decoder_step.start(self, encoder_out, tokens.size(0))
                incremental_state[SEARCH] = search
        return search

    def reorder_incremental_state_scripting(
        self, incremental_state: Dict[str, Dict[str, Optional[Tensor]]], new_order: Tensor
    ):
        """As fairseq's: follow the beams."""
        if not torch.jit.is_scripting():
            if SEARCH in incremental_state:
                incremental_state[SEARCH].reorder(new_order)
                return
        for module in self.modules():
            if hasattr(module, "reorder_incremental_state"):
                result = module.reorder_incremental_state(incremental_state, new_order)
                if result is not None:
                    incremental_state = result


def use_positions(stack, cfg, part) -> None:
    """Put the sinusoidal positions that the options name into an encoder or decoder."""
    encoding = cfg.attention_plan.extra["position_encoding"]
    if encoding != "fairseq" and stack.embed_positions is not None and not part.learned_pos:
        stack.embed_positions = Positions(encoding, part.embed_dim, stack.padding_idx)


@register_model("gated_transformer", dataclass=GatedTransformerConfig)
class GatedTransformerModel(TransformerModelBase):
    """Transformer whose heads can be gated, fixed by a layout, and removed."""

    @classmethod
    def add_args(cls, parser):
        """All options as flags, without defaults, so that a named architecture can set them."""
        gen_parser_from_dataclass(parser, GatedTransformerConfig(), delete_default=True)

    @classmethod
    def build_model(cls, cfg, task):
        """From our flat options; UserError when they do not describe a model."""
        layout = read_layout(cfg.head_layout) if cfg.head_layout else None
        layout = keep_layers(cfg, layout)  # before anything counts layers
        plan = make_plan(cfg, layout)
        parts = freezing.parse_freeze(cfg.freeze)
        if layout is not None:
            embed_layout(cfg, layout)
        config = transformer_config(cfg)
        config.attention_plan = plan
        model = super().build_model(config, task)
        model.learned_target = LearnedTarget()
        report_freezing(freezing.freeze(model, parts), parts)
        return model

    @classmethod
    def build_encoder(cls, cfg, src_dict, embed_tokens):
        return HeadEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg, tgt_dict, embed_tokens):
        return HeadDecoder(cfg, tgt_dict, embed_tokens)

    def set_num_updates(self, num_updates):
        """Told by fairseq before every update; the criterion's schedules go by it."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def set_beam_size(self, beam_size: int):
        """Told by the sequence generator; lets beams share the encoder's output."""
        self.encoder.set_beam_size(beam_size)

    def load_state_dict(self, state_dict, strict=True, model_cfg=None, args=None):
        """As fairseq's, with the layers that the options keep."""
        return super().load_state_dict(keep_weights(state_dict, model_cfg), strict, model_cfg, args)

    def upgrade_state_dict_named(self, state_dict, name):
        """A checkpoint without gates gets them at their initial, open state."""
        super().upgrade_state_dict_named(state_dict, name)
        if "l0_multiplier" in state_dict:  # its name until version 0.1
            state_dict["learned_target.multiplier"] = state_dict.pop("l0_multiplier")
        for key, value in self.state_dict().items():
            if key not in state_dict and belongs_to_gates(key):
                state_dict[key] = value.detach().clone()


def report_freezing(result, parts) -> None:
    """Say what is frozen, and what sharing makes of it."""
    if not parts:
        return
    logger.info("frozen (%s): %d parameter tensors", ", ".join(parts), len(result["frozen"]))
    if result["shared"]:
        logger.warning(
            "shared with a frozen part, so frozen too: %s (train the baseline without "
            "--share-all-embeddings to fine-tune these)",
            ", ".join(result["shared"]),
        )


@register_model_architecture("gated_transformer", "gated_transformer_iwslt_de_en")
def gated_transformer_iwslt_de_en(args):
    """As transformer_iwslt_de_en."""
    set_defaults(args, ffn=1024, heads=4)


@register_model_architecture("gated_transformer", "gated_transformer_wmt_en_de")
def gated_transformer_wmt_en_de(args):
    """As transformer_wmt_en_de (the base model)."""
    set_defaults(args, ffn=2048, heads=8)


@register_model_architecture("gated_transformer", "gated_transformer_voita")
def gated_transformer_voita(args):
    """Appendix B.2: the base model, regularised as in Vaswani et al. (2017), as the authors' code
    has it: LayerNorm before each block, dropout 0.1 on attention weights and activations too."""
    for name in ("encoder_normalize_before", "decoder_normalize_before"):
        setattr(args, name, getattr(args, name, True))
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        setattr(args, name, getattr(args, name, 0.1))
    set_defaults(args, ffn=2048, heads=8)


def set_defaults(args, ffn: int, heads: int, width: int = 512, layers: int = 6) -> None:
    """Sizes of both stacks, wherever the user gave none."""
    for stack in ("encoder", "decoder"):
        for name, value in (
            ("embed_dim", width),
            ("ffn_embed_dim", ffn),
            ("attention_heads", heads),
            ("layers", layers),
        ):
            key = f"{stack}_{name}"
            setattr(args, key, getattr(args, key, value))
