"""The models that benchmarks compare: same sizes, same weights, different classes."""

from argparse import Namespace
from dataclasses import dataclass

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.models.config import GatedTransformerConfig
from fairseq_headprune.models.gated_transformer import GatedTransformerModel
from fairseq_headprune.nn.projections import attention_modules
from fairseq_headprune.units.anatomy import belongs_to_gates, head_parameters, head_rows
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout


@dataclass(frozen=True)
class Size:
    """Width, feed-forward width, heads and layers (of either stack) of a Transformer."""

    width: int
    ffn: int
    heads: int
    layers: int


SIZES = {
    "toy": Size(16, 32, 4, 2),  # for tests
    "tiny": Size(128, 256, 4, 4),  # as used on Multi30k
    "small": Size(256, 1024, 4, 6),
    "base": Size(512, 2048, 8, 6),  # the paper's
}

COUNTS: dict[str, tuple[int, int, int]] = {
    "48/48/48": (48, 48, 48),
    "10/48/48": (10, 48, 48),
    "14/31/30": (14, 31, 30),
    "8/13/15": (8, 13, 15),
}
"""Heads kept in the paper's base model, encoder / decoder / decoder-encoder (Table 2)."""


def size_named(name: str) -> Size:
    """UserError for a name that is not in SIZES."""
    if name not in SIZES:
        raise UserError(f"unknown size '{name}': use one of {', '.join(SIZES)}")
    return SIZES[name]


def counts_for(text: str, size: Size) -> tuple[int, int, int]:
    """``"14/31/30"``, counts of the paper's 48 heads a type, scaled to ``size`` (rounded)."""
    try:
        counts = [int(part) for part in text.split("/")]
    except ValueError:
        counts = []
    if len(counts) != 3 or not all(0 <= n <= 48 for n in counts):
        raise UserError(f"'{text}' is not a layout: write three head counts out of 48, e.g. 14/31/30")
    total = size.heads * size.layers
    encoder, decoder, cross = (round(n * total / 48) for n in counts)
    return encoder, decoder, cross


def spread_evenly(counts: tuple[int, int, int], size: Size) -> HeadLayout:
    """Layout with so many heads per type, layers differing by one head at most, lower ones more."""
    layers = {}
    for key, count in zip(ATTENTION_TYPES, counts):
        each, more = divmod(count, size.layers)
        layers[key] = tuple(tuple(range(each + (n < more))) for n in range(size.layers))
    return HeadLayout(**layers)


def dictionary(words: int) -> Dictionary:
    """A dictionary of ``words`` symbols in all."""
    symbols = Dictionary()
    for i in range(words - len(symbols)):
        symbols.add_symbol(f"w{i}")
    return symbols


def options(size: Size, dropout: float = 0.0) -> dict[str, object]:
    """Flags, flat, that both classes take; embeddings tied, as in the paper's models."""
    result: dict[str, object] = {"share_all_embeddings": True, "dropout": dropout}
    for stack in ("encoder", "decoder"):
        result[f"{stack}_embed_dim"] = size.width
        result[f"{stack}_ffn_embed_dim"] = size.ffn
        result[f"{stack}_attention_heads"] = size.heads
        result[f"{stack}_layers"] = size.layers
    return result


def task_of(symbols: Dictionary) -> Namespace:
    """What the builders read of a task."""
    return Namespace(source_dictionary=symbols, target_dictionary=symbols, src_dict=symbols, tgt_dict=symbols)


def stock(size: Size, symbols: Dictionary, seed: int = 1, dropout: float = 0.0) -> nn.Module:
    """fairseq's ``transformer``, initialised from ``seed``."""
    args = Namespace(**options(size, dropout))
    base_architecture(args)
    torch.manual_seed(seed)
    return TransformerModel.build_model(args, task_of(symbols))


def ours(
    size: Size,
    symbols: Dictionary,
    gate_types: str = "all",
    layout: HeadLayout = None,
    seed: int = 1,
    dropout: float = 0.0,
) -> nn.Module:
    """``gated_transformer``, initialised from ``seed``; with ``gate_types="none"`` and a layout,
    what ``pruned_transformer`` is."""
    root = OmegaConf.create({"model": OmegaConf.structured(GatedTransformerConfig())})
    settings = {**options(size, dropout), "gate_types": gate_types}
    if layout is not None:
        settings["head_layout"] = layout.to_json()
    for name, value in settings.items():
        root.model[name] = value
    torch.manual_seed(seed)
    return GatedTransformerModel.build_model(root.model, task_of(symbols))


def decisive_weights(model: nn.Module, seed: int = 1) -> dict[str, Tensor]:
    """Random weights large enough that no two hypotheses score alike, for comparing searches."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, old in model.state_dict().items():
        if name == "decoder.output_projection.weight":
            continue  # tied
        noise = torch.randn(old.shape, generator=generator)
        if not old.is_floating_point() or name.endswith("version"):
            state[name] = old
        elif "norm" in name and name.endswith("weight"):
            state[name] = 1 + 0.1 * noise
        elif name.endswith("bias"):
            state[name] = 0.1 * noise
        elif "embed" in name:
            state[name] = noise * (2 / old.shape[-1] ** 0.5)
        else:
            state[name] = noise * (1 / old.shape[-1] ** 0.5)
    if "decoder.output_projection.weight" in model.state_dict():
        state["decoder.output_projection.weight"] = state["decoder.embed_tokens.weight"]
    return state


def silence(model: nn.Module, layout: HeadLayout) -> None:
    """Zero, in a stock model, the columns of W_O that read heads outside ``layout``."""
    for key, modules in attention_modules(model).items():
        for layer, module in enumerate(modules):
            keep = torch.zeros(module.embed_dim, dtype=torch.bool)
            heads = layout[key][layer]
            keep[head_rows(range(module.num_heads), heads, module.head_dim)] = True
            module.out_proj.weight.data[:, ~keep] = 0.0


def take_heads(model: nn.Module, source: nn.Module) -> None:
    """Copy the weights of a stock model into one of ours, which may have fewer heads."""
    state = source.state_dict()
    for key, modules in attention_modules(model).items():
        for layer, module in enumerate(modules):
            rows = torch.tensor(head_rows(range(module.total_heads), module.heads, module.head_dim)).long()
            for name, dim in head_parameters(key, layer):
                state[name] = state[name].index_select(dim, rows)
    missing = model.load_state_dict(state, strict=False)
    foreign = [k for k in missing.missing_keys if not belongs_to_gates(k)]
    assert not foreign and not missing.unexpected_keys, missing
