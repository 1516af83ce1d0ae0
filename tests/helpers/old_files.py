"""A checkpoint of today in the forms that fairseq wrote from 2017 to 2019."""

from argparse import Namespace
from collections import OrderedDict

import torch
from fairseq.logging import meters

_STACK = "embed_path embed_dim ffn_embed_dim layers attention_heads normalize_before learned_pos".split()
_OPTIONS_OF_2018 = [
    *(f"{stack}_{name}" for stack in ("encoder", "decoder") for name in _STACK),
    *"arch source_lang target_lang optimizer adam_betas lr_scheduler criterion label_smoothing dropout".split(),
    *"attention_dropout share_all_embeddings share_decoder_input_output_embed adaptive_softmax_cutoff".split(),
    *"max_source_positions max_target_positions max_tokens seed update_freq clip_norm save_dir max_update".split(),
]
YEARS = (2017, 2018, 2019)


def old_file(checkpoint, path, year: int):
    """Write ``checkpoint`` (a stock transformer, embeddings not shared) to ``path`` as of ``year``."""
    state = torch.load(checkpoint, weights_only=True)
    options = {k: v for k, v in vars(state["cfg"]["model"]).items() if k in _OPTIONS_OF_2018}
    options.update(
        data=[str(state["cfg"]["task"]["data"])], lr=0.25, min_lr=1e-9, relu_dropout=0.0, raw_text=False
    )
    options.update(left_pad_source="True", left_pad_target="False")
    optimizer = {"state": {}, "param_groups": [{"lr": 0.25, "params": []}]}
    result = {"args": Namespace(**options), "model": state["model"]}
    if year == 2019:
        options["lr"] = [0.25]
        result["args"] = Namespace(**options, task="translation", activation_fn="relu", remove_bpe=None)
        result["model"] = {k: v.half() if "version" not in k else v for k, v in state["model"].items()}
        result["optimizer_history"] = [
            {
                "criterion_name": "X",
                "optimizer_name": "Y",
                "lr_scheduler_state": {"best": 1.0},
                "num_updates": 60,
            }
        ]
        result["last_optimizer_state"] = optimizer
        result["extra_state"] = {"train_iterator": {"epoch": 3, "iterations_in_epoch": 0}, **_meters()}
    else:
        result["model"] = _old_weights(state["model"])
    if year == 2018:
        result["optimizer_history"] = [{"criterion_name": "X", "best_loss": 1.0, "optimizer": optimizer}]
        result["extra_state"] = {"epoch": 3, "batch_offset": 0, "val_loss": 1.0, **_meters()}
    if year == 2017:
        del result["args"].lr  # it was in the optimizer's state
        result["args"].lr = [0.25]
        result.update(optimizer=optimizer, best_loss=1.0, epoch=3, batch_offset=0, val_loss=1.0)
    _save(result, path)
    return path


def _meters():
    found = [
        ("train_loss", meters.AverageMeter()),
        ("wps", meters.TimeMeter()),
        ("wall", meters.StopwatchMeter()),
    ]
    found[0][1].update(2.5, 3)
    return {"train_meters": OrderedDict(found)}


def _save(state, path):
    """With the meters under the module that they were in."""
    kinds = [meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter]
    try:
        for kind in kinds:
            kind.__module__ = "fairseq.meters"
        torch.save(state, path)
    finally:
        for kind in kinds:
            kind.__module__ = "fairseq.logging.meters"


def _old_weights(model):
    """q, k and v in one matrix, numbered norms, the output matrix as a bare parameter, a marker of types."""
    norms = {
        "encoder": {"self_attn_layer_norm": 0, "final_layer_norm": 1},
        "decoder": {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1, "final_layer_norm": 2},
    }
    result = {"encoder.embed_positions._float_tensor": torch.zeros(1)}
    for name, value in model.items():
        stack, *rest = name.split(".")
        if ".q_proj." in name:
            parts = [model[name.replace(".q_proj.", f".{x}_proj.")] for x in "qkv"]
            result[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        elif rest and rest[0] == "layers" and rest[2] in norms[stack]:
            result[".".join([stack, *rest[:2], "layer_norms", str(norms[stack][rest[2]]), rest[3]])] = value
        elif name == "decoder.output_projection.weight":
            result["decoder.embed_out"] = value
        elif ".k_proj." not in name and ".v_proj." not in name and not name.endswith(".version"):
            result[name] = value
    return result
