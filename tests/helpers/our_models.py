"""Our models at toy size, built the way fairseq builds them, and their stock twin."""

from argparse import Namespace

import torch
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from omegaconf import OmegaConf

import fairseq_headprune  # noqa: F401
from fairseq_headprune.models.config import GatedTransformerConfig
from fairseq_headprune.models.gated_transformer import GatedTransformerModel
from tests.helpers.small_models import dictionary

SIZES = dict(
    encoder_embed_dim=16,
    decoder_embed_dim=16,
    encoder_ffn_embed_dim=24,
    decoder_ffn_embed_dim=24,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    max_source_positions=64,
    max_target_positions=64,
    dropout=0.0,
)


def task(words: int = 12):
    symbols = dictionary(words)
    return Namespace(source_dictionary=symbols, target_dictionary=symbols, src_dict=symbols, tgt_dict=symbols)


def config(**options):
    """Flat options as a DictConfig with the dataclass's defaults."""
    root = OmegaConf.create({"model": OmegaConf.structured(GatedTransformerConfig())})
    for name, value in {**SIZES, **options}.items():
        root.model[name] = value
    return root.model


def gated(seed: int = 1, words: int = 12, **options):
    """A gated_transformer in eval mode."""
    torch.manual_seed(seed)
    return GatedTransformerModel.build_model(config(**options), task(words)).eval()


def stock(seed: int = 1, words: int = 12, **options):
    """A stock transformer of the same sizes, built from the same seed."""
    args = Namespace(**{**SIZES, **options})
    base_architecture(args)
    torch.manual_seed(seed)
    model = TransformerModel.build_model(args, task(words)).eval()
    model.flat_options = args
    return model


def set_log_a(model, chosen, low: float = -5.0, high: float = 5.0) -> None:
    """Open the gates of the heads in ``chosen`` (a HeadLayout) and close the others."""
    from fairseq_headprune.nn.projections import attention_modules

    for key, modules in attention_modules(model).items():
        for layer, module in enumerate(modules):
            if module.gates is not None:
                values = [high if h in chosen[key][layer] else low for h in module.heads]
                module.gates.scaled_log_a.data = torch.tensor(values) / module.gates.lr_scale
