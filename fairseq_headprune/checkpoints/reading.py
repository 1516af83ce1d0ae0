"""Reading fairseq checkpoints: what they hold, as plain values, with clear refusals.

Heads and gates are read from the file alone, without building the model or finding its data.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints.configuration import plain, upgraded
from fairseq_headprune.checkpoints.guard import check_configuration
from fairseq_headprune.checkpoints.pickles import foreign_name
from fairseq_headprune.checkpoints.support import unsupported
from fairseq_headprune.units import gates
from fairseq_headprune.units.anatomy import PLACES
from fairseq_headprune.units.layout import ATTENTION_TYPES, HeadLayout


def read_file(path) -> dict[str, Any]:
    """The contents of a file, on the CPU; UserError when it is not a whole checkpoint of fairseq."""
    path = str(path)
    if os.path.isdir(path):
        raise UserError(f"{path} is a folder: name a checkpoint file")
    if not os.path.isfile(path):
        raise UserError(f"checkpoint {path} does not exist: name a file of fairseq-train")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what is no checkpoint fails in any way, at any depth of torch
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise MemoryError from None
        if isinstance(error, PermissionError):
            raise UserError(f"cannot read {path}: {error.strerror}") from None
        foreign = foreign_name(path)
        if foreign:
            raise UserError(
                f"cannot read {path}: it holds an object of type {foreign[:100]!r}, code that was not run, "
                "since a file may do anything with it"
            ) from None
        raise UserError(f"cannot read {path} as a checkpoint: it is truncated or no fairseq file") from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UserError(f"{path} is not a fairseq checkpoint: it has no 'model' entry")
    if not (state.get("cfg") or state.get("args")):
        raise UserError(f"{path} is not a fairseq checkpoint: it has no configuration")
    wrong = [name for name, value in state["model"].items() if not isinstance(value, Tensor)]
    if wrong:
        raise UserError(f"{path} is damaged: {str(wrong[0])[:100]} is no tensor")
    return state


def load_checkpoint(path) -> dict[str, Any]:
    """`read_file` of an encoder-decoder Transformer; UserError for other models and damaged ones."""
    path = str(path)
    state = read_file(path)
    check_configuration(state, path)
    if not state.get("cfg"):
        state["cfg"] = upgraded(state["args"], path)
    _check_options(state, path)
    _split_old_projections(state["model"])
    missing = [
        place.prefix(0)
        for place in PLACES.values()
        if not any(key.startswith(place.prefix(0) + ".") for key in state["model"])
    ]
    if missing:
        raise UserError(f"{path} is not an encoder-decoder Transformer: it has no {missing[0]}")
    _check_heads(state, path)
    return state


def _check_options(state: dict[str, Any], path: str) -> None:
    try:
        option = unsupported(model_options(state))
    except UserError as error:
        raise UserError(f"{path} is damaged or no fairseq Transformer: {error}") from None
    if option:
        raise UserError(
            f"{path} was trained with {option}, under which heads cannot be counted, gated or removed: use a "
            "model without it"
        )


def _check_heads(state: dict[str, Any], path: str) -> None:
    """UserError when weights and gates are not those of the heads that the configuration names."""
    try:
        stored = existing_layout(state)
        stored.check_within(whole_layout(state))
    except UserError as error:
        raise UserError(f"{path} is damaged or no fairseq Transformer: {error}") from None
    heads = num_heads(state)
    for key in ATTENTION_TYPES:
        for layer, existing in enumerate(stored[key]):
            name = PLACES[key].prefix(layer)
            weight = state["model"].get(f"{name}.out_proj.weight")
            whole = tuple(getattr(weight, "shape", ()))
            log_a = state["model"].get(f"{name}.gates.scaled_log_a")
            fits = len(whole) == 2 and whole[1] * heads[key] == whole[0] * len(existing)
            if not fits or (log_a is not None and log_a.numel() != len(existing)):
                raise UserError(
                    f"{path} is damaged: {name} does not have the weights of {len(existing)} of "
                    f"{heads[key]} heads that its configuration says"
                )
            if log_a is not None and not torch.isfinite(log_a).all():
                raise UserError(
                    f"the gates of {name} in {path} are not finite: training diverged, so use an "
                    "earlier checkpoint"
                )


def _split_old_projections(model: dict[str, Tensor]) -> None:
    """Checkpoints of before 2020 hold q, k and v in one matrix."""
    for key in [k for k in model if k.endswith(("in_proj_weight", "in_proj_bias"))]:
        prefix, kind = key.rsplit("in_proj_", 1)
        for name, part in zip(("q", "k", "v"), model.pop(key).chunk(3)):
            model[f"{prefix}{name}_proj.{kind}"] = part


def model_options(state: dict[str, Any]) -> dict[str, Any]:
    """The model's options, flat and named as the flags."""
    try:
        options = plain(state["cfg"]["model"] if state.get("cfg") else state["args"])
    except (KeyError, TypeError):
        options = None
    if not isinstance(options, dict):
        raise UserError("the checkpoint's configuration does not describe a model")
    return options


def num_layers(state: dict[str, Any]) -> dict[str, int]:
    """Layers per attention type."""
    counts = {}
    for key, place in PLACES.items():
        before = f"{place.stack}.layers."
        found = {k[len(before) :].split(".")[0] for k in state["model"] if k.startswith(before)}
        counts[key] = len({n for n in found if any(_attention_keys(state, key, int(n)))})
    return counts


def _attention_keys(state, key: str, layer: int):
    prefix = PLACES[key].prefix(layer) + "."
    return [k for k in state["model"] if k.startswith(prefix) and "_proj." in k]


def num_heads(state: dict[str, Any]) -> dict[str, int]:
    """Heads per layer of the model before any was removed, per attention type."""
    options = model_options(state)
    try:
        heads = {key: int(options[place.heads_option]) for key, place in PLACES.items()}
    except (KeyError, TypeError, ValueError):
        heads = {}
    if min(heads.values(), default=0) < 1:
        raise UserError(
            "the checkpoint's configuration does not say how many attention heads its layers have"
        )
    return heads


def whole_layout(state: dict[str, Any]) -> HeadLayout:
    """All heads of the architecture, removed ones included."""
    layers, heads = num_layers(state), num_heads(state)
    return HeadLayout(**{t: (tuple(range(heads[t])),) * layers[t] for t in ATTENTION_TYPES})


def stored_layout(state: dict[str, Any]) -> HeadLayout | None:
    """The layout that the checkpoint was built with, or None when it has all heads."""
    text = model_options(state).get("head_layout")
    return HeadLayout.from_json(text, "the checkpoint's head_layout") if text else None


def existing_layout(state: dict[str, Any]) -> HeadLayout:
    """The heads that have parameters in the checkpoint."""
    stored = stored_layout(state)
    return whole_layout(state) if stored is None else stored


def gate_options(state: dict[str, Any]) -> dict[str, Any]:
    """``temperature`` and ``stretch`` of the checkpoint's gates, as keyword arguments."""
    options = model_options(state)
    stretch = (options.get("gate_stretch_low", -0.1), options.get("gate_stretch_high", 1.1))
    return {"temperature": options.get("gate_temperature", 0.33), "stretch": stretch}


def log_alphas(state: dict[str, Any]) -> dict[tuple[str, int], Tensor]:
    """``(type, layer) -> log alpha [existing heads]``, float32, for layers that have gates."""
    return {key: log_a for key, (log_a, _) in _gates(state).items()}


def _gates(state: dict[str, Any]) -> dict[tuple[str, int], tuple[Tensor, float]]:
    """``(type, layer) -> (log alpha, threshold that it is held against in evaluation)``."""
    found = {}
    for key, layers in num_layers(state).items():
        for layer in range(layers):
            prefix = PLACES[key].prefix(layer) + ".gates."
            if prefix + "scaled_log_a" in state["model"]:
                scaled = state["model"][prefix + "scaled_log_a"].float()
                log_a = scaled * state["model"][prefix + "lr_scale"].float()
                found[key, layer] = (log_a, float(state["model"].get(prefix + "threshold", 0.0)))
    return found


def open_layout(state: dict[str, Any]) -> HeadLayout:
    """The heads that act in evaluation: they exist and their gate, if any, is open."""
    layout = existing_layout(state)
    options, found = gate_options(state), _gates(state)
    layers: dict[str, list[tuple[int, ...]]] = {}
    for key in ATTENTION_TYPES:
        layers[key] = []
        for layer, heads in enumerate(layout[key]):
            if (key, layer) in found:
                log_a, threshold = found[key, layer]
                is_open = gates.hard(log_a - threshold, **options).tolist()
                heads = tuple(h for h, g in zip(heads, is_open) if g > 0)
            layers[key].append(heads)
    return HeadLayout(**{t: tuple(layers[t]) for t in ATTENTION_TYPES})


def checkpoint_layout(state: dict[str, Any]) -> HeadLayout:
    """The heads that another model should have to be like this one."""
    return open_layout(state)


def explain_failure(paths: Sequence[str], error: Exception) -> None:
    """UserError with the reason why fairseq failed to load these files, if it is one of theirs."""
    for path in paths:
        read_file(path)
    # fairseq-train says "ensure that the architectures match" and has the reason in the first error
    text = f"{error} {error.__context__ or ''}"
    sizes = re.search(
        r"size mismatch for (\S+): .*?Size\(\[(.*?)\]\) from.*?Size\(\[(.*?)\]\)", text, re.DOTALL
    )
    if sizes and "embed_tokens.weight" in sizes[1] and sizes[2].split(",")[1:] == sizes[3].split(",")[1:]:
        side = "source" if sizes[1].startswith("encoder.") else "target"
        there, here = (text.split(",")[0] for text in sizes.groups()[1:])
        raise UserError(
            f"{', '.join(map(str, paths))} was trained with another {side} dictionary ({there} entries) than "
            f"that of the data ({here}): name the folder of binarised data that it was trained with"
        ) from None
    if sizes:
        raise UserError(
            f"{', '.join(map(str, paths))} has other sizes than the model of these options ({sizes[1]} is "
            f"{sizes[2]} there and {sizes[3]} here): give the flags that it was trained with"
        ) from None


def load_model(path, data: str | None = None):
    """``(model, cfg, task)`` of a checkpoint file, ready for evaluation on the CPU.

    ``data`` replaces the folder of binarised data that the checkpoint names (its dictionaries are
    needed). UserError for files that are not whole Transformer checkpoints.
    """
    from fairseq import checkpoint_utils
    from fairseq.dataclass.configs import GenerationConfig
    from omegaconf import OmegaConf, open_dict

    load_checkpoint(path)  # for its refusals; fairseq's own loading has none
    overrides = {"data": str(data)} if data else {}
    try:
        models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides=overrides
        )
    except (FileNotFoundError, OSError) as error:
        raise UserError(
            f"cannot find the dictionaries of {path} ({error}): name the folder of its binarised data"
        ) from None
    except Exception as error:  # fairseq says it with a bare Exception
        if "infer language pair" not in str(error):
            raise
        raise UserError(
            f"{data} holds no binarised data: name the folder that fairseq-preprocess wrote"
        ) from None
    if "generation" not in cfg:  # a checkpoint that no fairseq-train wrote names none of its options
        with open_dict(cfg):
            cfg.generation = OmegaConf.structured(GenerationConfig)
    model = models[0]
    model.eval()
    return model, cfg, task
