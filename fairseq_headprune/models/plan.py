"""What attention to build where: resolved options, handed to the layers while a model is built."""

from dataclasses import dataclass, field, replace
from typing import Dict, Mapping, Optional, Tuple

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints.support import unsupported
from fairseq_headprune.nn.attention import HeadAttention
from fairseq_headprune.nn.positions import ENCODINGS
from fairseq_headprune.units.gates import HeadGates, check_options
from fairseq_headprune.units.layout import HeadLayout, parse_types
from fairseq_headprune.units.target import check_target, check_translates, parse_target


@dataclass
class AttentionPlan:
    """Builds the attention modules of one model, lowest layer first within each type.

    ``extra``: the options of `CHOICES`, ``output_bias`` and ``no_unk``.
    """

    layout: HeadLayout
    gate_types: Tuple[str, ...]
    gate_options: Dict[str, object]
    extra: Mapping[str, object] = field(default_factory=dict)
    built: Dict[str, int] = field(default_factory=dict)

    def build(self, key: str, embed_dim: int, total_heads: int, **kwargs) -> HeadAttention:
        """The attention of type ``key`` of the next layer."""
        layer = self.built.get(key, 0)
        self.built[key] = layer + 1
        heads = self.layout[key][layer]
        gates: Optional[HeadGates] = None
        if key in self.gate_types and heads:
            gates = HeadGates(len(heads), **self.gate_options)
        return HeadAttention(embed_dim, total_heads, heads, gates, **kwargs)


def refuse_unsupported(cfg) -> None:
    """UserError, by name, for stock options under which a head could not be switched off or removed."""
    option = unsupported(cfg)
    if option:
        raise UserError(
            f"{option} replaces the attention that gates and head layouts act on; "
            "leave it out or use --arch transformer"
        )


L0 = "label_smoothed_cross_entropy_l0"

CHOICES = {
    "decoder_self": ("attention", "ssru"),
    "decoder_start": ("eos", "zero", "pad"),
    "position_encoding": ENCODINGS,
}


def check_choices(cfg) -> None:
    """UserError for a word that one of these options does not know, or that another one excludes."""
    for name, words in CHOICES.items():
        if cfg[name] not in words:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} does not know '{cfg[name]}': use " + " or ".join(words))
    if cfg.output_bias and cfg.adaptive_softmax_cutoff is not None:
        raise UserError("--output-bias and --adaptive-softmax-cutoff exclude each other: leave one out")
    width = cfg.encoder_embed_dim % 2 or cfg.decoder_embed_dim % 2
    if cfg.position_encoding != "fairseq" and width:
        raise UserError(f"--position-encoding {cfg.position_encoding} needs an even --encoder-embed-dim")


def make_plan(cfg, layout: Optional[HeadLayout]) -> AttentionPlan:
    """Check the options (flat config) and resolve them; ``layout`` None means all heads."""
    refuse_unsupported(cfg)
    check_choices(cfg)
    if cfg.gate_types is not None and not cfg.gate_types.strip():
        raise UserError("--gate-types is empty: write none, all, or types like enc-self,dec-enc")
    try:
        types = parse_types(cfg.gate_types)
    except UserError as error:
        raise UserError(f"--gate-types: {error}, all or none") from None
    stretch = (cfg.gate_stretch_low, cfg.gate_stretch_high)
    check_options(cfg.gate_temperature, stretch, cfg.gate_init, cfg.gate_lr_scale)
    whole = HeadLayout.full(
        cfg.encoder_layers,
        cfg.encoder_attention_heads,
        cfg.decoder_layers,
        cfg.decoder_attention_heads,
    )
    if cfg.decoder_self == "ssru":
        whole = replace(whole, dec_self=())
    if layout is None:
        layout = whole
    is_file = cfg.head_layout and not cfg.head_layout.lstrip().startswith("{")
    layout.check_within(whole, f"--head-layout {cfg.head_layout}" if is_file else "--head-layout")
    _check_criterion(cfg, layout, types)
    options = dict(
        temperature=cfg.gate_temperature,
        stretch=stretch,
        init=cfg.gate_init,
        lr_scale=cfg.gate_lr_scale,
    )
    extra = {name: cfg[name] for name in (*CHOICES, "output_bias", "no_unk")}
    return AttentionPlan(layout, types, options, extra)


def _check_criterion(cfg, layout: HeadLayout, types: Tuple[str, ...]) -> None:
    """UserError when the criterion cannot score the model, or is to leave more heads than there are gates;
    it would notice in the first update itself, for which fairseq writes a checkpoint of the crash."""
    root = cfg._get_parent() if hasattr(cfg, "_get_parent") else None
    criterion = root.get("criterion", None) if root is not None else None
    if getattr(criterion, "_name", None) == L0 and cfg.adaptive_softmax_cutoff is not None:
        raise UserError(
            f"--criterion {L0} and --adaptive-softmax-cutoff exclude each other: only a full softmax is "
            "smoothed, so prune a model without the latter, or by other criteria than gates"
        )
    text = criterion.get("l0_target_heads", None) if criterion is not None else None
    if text:
        option, counts = "--l0-target-heads", layout.counts()
        target = parse_target(text, option)
        check_target(target, {t: counts[t] for t in types}, option)
        check_translates(target, option)
