"""Options of fairseq's Transformer that heads cannot be told apart under: one table, whoever meets them."""

from collections.abc import Mapping
from typing import Any

UNSUPPORTED = (
    "cross_self_attention",
    "no_cross_attention",
    "quant_noise_pq",
    "quant_noise_scalar",
    "encoder_xformers_att_config",
    "decoder_xformers_att_config",
    "base_layers",
)
"""Each replaces the attention that gates and layouts act on, or layers around it."""


def unsupported(options: Mapping[str, Any]) -> str | None:
    """The first of these options that is in force, as a flag."""
    for name in UNSUPPORTED:
        if options.get(name):
            return "--" + name.replace("_", "-")
    return None
