"""A `Source` as a checkpoint of fairseq: words in fairseq's order, options under fairseq's names."""

from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_headprune.checkpoints.configuration import plain
from fairseq_headprune.imports import names
from fairseq_headprune.imports.source import Source
from fairseq_headprune.imports.vocabulary import fairseq_order

ABSENT_BIAS = -100.0
"""Output bias of ``<s>`` and ``<pad>`` where the source has none: nothing in a softmax, finite in a
smoothed loss."""
MAX_POSITIONS = 1024


def reorder(array: np.ndarray, order: list[int], fill: float = 0.0) -> np.ndarray:
    """Rows ``order`` of ``array``; -1 gives a row of ``fill``."""
    result = np.full((len(order), *array.shape[1:]), fill, np.float32)
    there = np.array(order) >= 0
    result[there] = array[np.array(order)[there]]
    return result


def weights(source: Source) -> dict[str, Tensor]:
    """The state dict. Tied weights are one tensor under several names."""
    o, orders = source.options, [fairseq_order(v.words) for v in source.vocabularies]
    arrays = dict(source.tensors)
    arrays[names.ENCODER_EMBEDDING] = reorder(arrays[names.ENCODER_EMBEDDING], orders[0])
    arrays[names.DECODER_EMBEDDING] = reorder(arrays[names.DECODER_EMBEDDING], orders[1])
    words = len(source.vocabularies[1].words)
    bias = arrays.pop(names.OUTPUT_BIAS, np.zeros(words, np.float32))
    arrays[names.OUTPUT_BIAS] = reorder(bias, orders[1], ABSENT_BIAS)
    if names.OUTPUT in arrays:
        arrays[names.OUTPUT] = reorder(arrays[names.OUTPUT], orders[1])
    for name in (names.ENCODER_POSITIONS, names.DECODER_POSITIONS):
        if name in arrays:  # fairseq counts positions from the padding's number + 1
            arrays[name] = np.concatenate([np.zeros((2, arrays[name].shape[1]), np.float32), arrays[name]])
    model = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    if o["share_all_embeddings"]:
        model[names.DECODER_EMBEDDING] = model[names.ENCODER_EMBEDDING]
    if o["share_decoder_input_output_embed"]:
        model[names.OUTPUT] = model[names.DECODER_EMBEDDING]
    for stack in ("encoder", "decoder"):
        model[f"{stack}.version"] = torch.tensor([3.0])
    return model


def model_options(source: Source) -> dict[str, Any]:
    """Options of ``pruned_transformer``, flat and named as its flags."""
    o = dict(source.options)
    learned, ssru, scaled = o.pop("learned_positions"), o.pop("ssru"), o.pop("scale_embedding")
    before = o.pop("normalize_before")
    o.pop("output_bias")
    positions = MAX_POSITIONS
    if learned:
        positions = len(source.tensors[names.ENCODER_POSITIONS])
        o["position_encoding"] = "fairseq"
    return {
        **o,
        "_name": "pruned_transformer",
        "arch": "pruned_transformer",
        "gate_types": "none",
        "freeze": "none",
        "head_layout": "",
        "decoder_input_dim": o["decoder_embed_dim"],
        "decoder_output_dim": o["decoder_embed_dim"],
        "encoder_normalize_before": before,
        "decoder_normalize_before": before,
        "encoder_learned_pos": learned,
        "decoder_learned_pos": learned,
        "no_scale_embedding": not scaled,
        "decoder_self": "ssru" if ssru else "attention",
        "output_bias": True,
        "no_unk": True,
        "max_source_positions": positions,
        "max_target_positions": positions,
        "dropout": 0.1,
    }


def configuration(options: dict[str, Any], languages: tuple[str, str]) -> dict[str, Any]:
    """What fairseq-train would have written: every section, since options of one refer to those of others."""
    from fairseq.dataclass.configs import FairseqConfig

    whole = plain(OmegaConf.to_container(OmegaConf.structured(FairseqConfig), enum_to_str=True))
    sections = {name: section for name, section in whole.items() if isinstance(section, dict)}
    return {
        **sections,
        "_name": None,
        "model": options,
        "task": {
            "_name": "translation",
            "data": "",
            "source_lang": languages[0],
            "target_lang": languages[1],
            "left_pad_source": True,
            "left_pad_target": False,
            "max_source_positions": options["max_source_positions"],
            "max_target_positions": options["max_target_positions"],
            "eval_bleu": False,
        },
        "criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": 0.1},
    }


def build(source: Source, languages: tuple[str, str]) -> dict[str, Any]:
    """The whole checkpoint, of plain types and tensors."""
    return {
        "cfg": configuration(model_options(source), languages),
        "args": None,
        "model": weights(source),
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "last_optimizer_state": None,
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
    }
