"""--encoder-layers-to-keep and --decoder-layers-to-keep: heads and weights go with their layers."""

from contextlib import nullcontext
from typing import Any, Dict, Optional

from omegaconf import OmegaConf, open_dict

from fairseq_headprune.units.kept_layers import STACKS, cut_layout, cut_weights, parse_kept
from fairseq_headprune.units.layout import HeadLayout


def keep_layers(cfg, layout: Optional[HeadLayout]) -> Optional[HeadLayout]:
    """Cut the numbers of layers in the flat options, and the layout, to the layers that the options keep."""
    kept = {
        stack: parse_kept(cfg[f"{stack}_layers_to_keep"], cfg[f"{stack}_layers"], stack) for stack in STACKS
    }
    for stack, numbers in kept.items():
        if numbers is not None:
            cfg[f"{stack}_layers"] = len(numbers)
            cfg[f"{stack}_layers_to_keep"] = ",".join(map(str, numbers))
    return layout if layout is None else cut_layout(layout, kept)


def keep_weights(weights: Dict[str, Any], cfg) -> Dict[str, Any]:
    """The weights of these layers, from a file with all or with these alone.

    The options are told that it is done, since they are what the next file says. (fairseq's own cutting comes
    after absent gates were added, and drops all layers of a stack that no option is about.)
    """
    for stack in STACKS:
        text = getattr(cfg, f"{stack}_layers_to_keep", None)
        if text:
            numbers = parse_kept(text, 1 << 30, stack)
            if len(cut_weights(weights, stack, range(len(numbers)))) < len(weights):
                weights = cut_weights(weights, stack, numbers)
            with open_dict(cfg) if OmegaConf.is_config(cfg) else nullcontext():
                setattr(cfg, f"{stack}_layers", len(numbers))
                setattr(cfg, f"{stack}_layers_to_keep", None)
    return weights
