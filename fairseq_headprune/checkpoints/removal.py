"""Remove heads for good: a checkpoint in, a smaller (or stock, with zeros) checkpoint out.

Works on the file's tensors alone. What is written holds plain types only (tensors, dictionaries,
strings, numbers), so it loads under torch's weights_only protection in a fairseq without our
repairs too.
"""

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.files import replacing
from fairseq_headprune.base.outputs import check_file
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints.configuration import configuration
from fairseq_headprune.models.config import GatedTransformerConfig, StockTransformerOptions
from fairseq_headprune.nn.activations import MORE
from fairseq_headprune.units.anatomy import PLACES, belongs_to_gates, head_parameters, head_rows
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout

OUR_OPTIONS = sorted(
    {f.name for f in fields(GatedTransformerConfig)} - {f.name for f in fields(StockTransformerOptions)}
)
STOCK_CRITERION = "label_smoothed_cross_entropy"
HINT = "pass --user-dir fairseq_headprune to load this checkpoint"


def _rows(stored: Sequence[int], wanted: Sequence[int], head_dim: int) -> Tensor:
    return torch.tensor(head_rows(stored, wanted, head_dim), dtype=torch.long)


def _attention_tensors(state: dict[str, Any], key: str, layer: int):
    """(name, tensor, dimension that heads lie along) of one attention module."""
    for name, dim in head_parameters(key, layer):
        if name in state["model"]:
            yield name, state["model"][name], dim


def head_dim(state: dict[str, Any], key: str) -> int:
    """Width of one head: the model's width over the number of heads before any was removed."""
    name = PLACES[key].prefix(0) + ".out_proj.weight"
    width = state["model"][name].size(0)
    return width // checkpoints.num_heads(state)[key]


def _places(state: dict[str, Any], layout: HeadLayout):
    """Each attention module as (type, layer, width of a head, heads stored, heads of ``layout``);
    UserError for a head of ``layout`` that the checkpoint has not."""
    stored = checkpoints.existing_layout(state)
    layout.check_within(stored)
    for key in ATTENTION_TYPES:
        if layout[key]:  # else an SSRU is in its place
            d = head_dim(state, key)
            for layer, heads in enumerate(layout[key]):
                yield key, layer, d, stored[key][layer], heads


def removed_weights(state: dict[str, Any], layout: HeadLayout) -> dict[str, Tensor]:
    """The model's tensors with rows and columns only for the heads of ``layout``; no gates."""
    model = without_gates(state["model"])
    for key, layer, d, stored, heads in _places(state, layout):
        rows = _rows(stored, heads, d)
        for name, tensor, dim in _attention_tensors(state, key, layer):
            model[name] = tensor.index_select(dim, rows)
    return model


def dense_weights(state: dict[str, Any], layout: HeadLayout) -> dict[str, Tensor]:
    """The model's tensors at the full stock size, with zeros for every head not in ``layout``."""
    total = checkpoints.num_heads(state)
    model = without_gates(state["model"])
    for key, layer, d, stored, heads in _places(state, layout):
        source = _rows(stored, heads, d)
        place = _rows(range(total[key]), heads, d)
        for name, tensor, dim in _attention_tensors(state, key, layer):
            shape = list(tensor.shape)
            shape[dim] = total[key] * d
            full = tensor.new_zeros(shape)
            model[name] = full.index_copy(dim, place, tensor.index_select(dim, source))
    return model


def without_gates(model: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that a model without gates has."""
    return {k: v for k, v in model.items() if not belongs_to_gates(k)}


def remove_heads(
    state: dict[str, Any],
    layout: HeadLayout | None = None,
    dense: bool = False,
    fp16: bool = False,
    allow_no_cross_attention: bool = False,
) -> dict[str, Any]:
    """A new checkpoint with the heads of ``layout`` only (default: those that act in evaluation).

    ``dense`` gives a stock ``transformer`` checkpoint with zeros instead of a smaller
    ``pruned_transformer`` one. Optimizer state is dropped. UserError when the layout names heads
    that do not exist, or leaves no decoder-encoder head and that is not allowed.
    """
    if layout is None:
        layout = checkpoints.open_layout(state)
    if not any(layout["dec_enc"]) and not allow_no_cross_attention:
        raise UserError(
            "every dec-enc head would be removed and nothing could be translated any more; "
            "use --force if that is what you want"
        )
    if dense:
        _refuse_dense(state)
    weights = (dense_weights if dense else removed_weights)(state, layout)
    weights = _own_tensors(weights)
    if fp16:
        weights = _half(weights)
    return {
        **(_dense_configuration(state) if dense else _pruned_configuration(state, layout)),
        "model": weights,
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": _num_updates(state),
            }
        ],
        "last_optimizer_state": None,
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
    }


def _own_tensors(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Compact copies; tied weights (one tensor under several names) stay tied, and are stored once."""
    copies: dict[Any, Tensor] = {}
    result = {}
    for name, tensor in weights.items():
        identity = (tensor.data_ptr(), tuple(tensor.shape), tensor.dtype)
        if identity not in copies or tensor.numel() == 0:
            copies[identity] = tensor.detach().clone().contiguous()
        result[name] = copies[identity]
    return result


def _half(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Half precision, tied weights still tied."""
    halves = {id(v): v.half() if v.is_floating_point() else v for v in weights.values()}
    return {k: halves[id(v)] for k, v in weights.items()}


def parameter_count(model: dict[str, Tensor]) -> int:
    """Values in the weights of a state dict, tied ones counted once, fairseq's markers left out."""
    return sum(v.numel() for v in _distinct(model))


def weight_bytes(model: dict[str, Tensor]) -> int:
    """Bytes that these values take."""
    return sum(v.numel() * v.element_size() for v in _distinct(model))


def _distinct(model: dict[str, Tensor]):
    weights = [v for k, v in model.items() if not k.endswith((".version", "._float_tensor"))]
    return list({(v.data_ptr(), tuple(v.shape)): v for v in weights}.values())


def _num_updates(state: dict[str, Any]) -> int:
    history = state.get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))


def _configuration(state: dict[str, Any]) -> dict[str, Any]:
    """Plain configuration with a criterion that every fairseq has, and no paths of ours."""
    config = configuration(state)
    for section, option in (("common", "user_dir"), ("checkpoint", "finetune_from_model")):
        config[section] = {**(config.get(section) or {}), option: None}
    criterion = config.get("criterion")
    if isinstance(criterion, dict):
        if str(criterion.get("_name", "")).startswith(STOCK_CRITERION):
            criterion = {k: v for k, v in criterion.items() if not k.startswith("l0_")}
            config["criterion"] = {**criterion, "_name": STOCK_CRITERION}
    return config


def _pruned_configuration(state: dict[str, Any], layout: HeadLayout) -> dict[str, Any]:
    """``cfg`` and ``args`` of the smaller checkpoint."""
    config = _configuration(state)
    config["model"] = {
        # a fairseq that does not know the architecture prints this, the first entry, as its error
        HINT: "",
        **_flat_options(config["model"], state),
        "_name": "pruned_transformer",
        "arch": "pruned_transformer",
        "gate_types": "none",
        "freeze": "none",
        "head_layout": layout.to_json(),
    }
    return {"cfg": config, "args": None}


def _dense_configuration(state: dict[str, Any]) -> dict[str, Any]:
    """``cfg`` and ``args`` of the stock checkpoint. fairseq applies --model-overrides to a namespace, and
    converters read theirs from one, so every option stands in ``args`` too."""
    config = _configuration(state)
    options = _flat_options(config["model"], state)
    options = {k: v for k, v in options.items() if k not in OUR_OPTIONS}
    options = config["model"] = {**options, "_name": "transformer", "arch": "transformer"}
    task = config.get("task") or {}
    if task.get("_name") == "translation_headprune":
        from fairseq.tasks.translation import TranslationConfig

        known = TranslationConfig.__dataclass_fields__
        task = config["task"] = {**{k: v for k, v in task.items() if k in known}, "_name": "translation"}
    criterion = config.get("criterion")
    criterion = criterion if isinstance(criterion, dict) else {"_name": criterion}
    names = {"task": task.get("_name", "translation"), "criterion": criterion.get("_name")}
    flat = {**criterion, **task, **options, **names}
    return {"cfg": config, "args": _namespace({k: v for k, v in flat.items() if k != "_name"})}


def _refuse_dense(state: dict[str, Any]) -> None:
    """UserError when fairseq's own Transformer cannot compute what the model does."""
    options, defaults = checkpoints.model_options(state), GatedTransformerConfig()
    for name in ("decoder_self", "decoder_start", "position_encoding", "output_bias", "no_unk"):
        value = options.get(name)
        if value is not None and value != getattr(defaults, name):
            option = "--" + name.replace("_", "-") + ("" if value is True else f" {value}")
            raise UserError(
                f"fairseq's own transformer has no {option}, which this model was built with: remove its "
                "heads without --dense, or see headprune export"
            )
    if options.get("activation_fn") in MORE:
        raise UserError(
            f"fairseq's own transformer cannot compute --activation-fn {options['activation_fn']}: remove "
            "heads without --dense"
        )


def _namespace(options: dict[str, Any]) -> OrderedDict:
    """Options as items and as attributes: stands in for an argparse.Namespace, which a file that
    loads under weights_only cannot hold."""
    namespace = OrderedDict(options)
    namespace.__dict__.update(options)
    return namespace


def _flat_options(options: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Model options only (old checkpoints keep every option of the run in one namespace), with the layers
    that are in the file: what was kept of more is no option any longer."""
    known = set(GatedTransformerConfig.__dataclass_fields__)
    layers = checkpoints.num_layers(state)
    return {
        **{k: v for k, v in options.items() if k in known},
        "encoder_layers": layers["enc_self"],
        "decoder_layers": layers["dec_enc"],
        "encoder_layers_to_keep": None,
        "decoder_layers_to_keep": None,
    }


def check_output(path, force: bool = False) -> None:
    """UserError unless ``path`` can be written: its folder is there and takes files, and without
    ``force`` no such file exists."""
    check_file(path, "the output", make=False)
    if os.path.exists(path) and not force:
        raise UserError(f"{path} exists already: choose another name or use --force")


def save(state: dict[str, Any], path, force: bool = False) -> None:
    """Write a checkpoint whole or not at all; UserError as `check_output`, or when the disk is full."""
    check_output(path, force)
    with replacing(path, make=False) as temporary:
        torch.save(state, temporary)
