"""A training that starts from a checkpoint: the configuration of the model lies in the file.

fairseq takes the weights from the file and the function that they belong to from the flags.
"""

import logging
import os
import sys
from collections.abc import Collection
from typing import Any

from omegaconf import OmegaConf, open_dict

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading as checkpoints
from fairseq_headprune.checkpoints.guard import check_configuration
from fairseq_headprune.models.architecture import agree, spell
from fairseq_headprune.models.layout_source import read_layout
from fairseq_headprune.units.kept_layers import STACKS, cut_layout, parse_kept
from fairseq_headprune.units.layout import HeadLayout, flag, parse_types

logger = logging.getLogger(__name__)


def starting_file(options) -> tuple[str | None, bool]:
    """The file that fairseq-train takes weights from with these checkpoint options, if it exists, and whether
    that is the run's own, with which it goes on."""
    path, own = options.restore_file, False
    if path == "checkpoint_last.pt":  # fairseq's default: go on with a run, if there is one
        path = os.path.join(options.save_dir, path)
        own = os.path.isfile(path)
        path = path if own else options.finetune_from_model
    return (path, own) if path and os.path.isfile(path) else (None, False)


def take_over(cfg, task, given: Collection[str], gate_types: str) -> None:
    """Complete the model options ``cfg`` of a run that starts from a checkpoint with those of the file.

    ``given``: names of the options that are on the command line; ``gate_types``: those of the architecture
    where the options name none. UserError for options and dictionaries under which the file's weights would
    be another model, see `architecture.agree`.
    """
    root = cfg._get_parent()
    if root is None:
        return
    check_configuration({"cfg": root}, "this training")  # as whoever reads its files will
    path, own = starting_file(root.checkpoint) if "checkpoint" in root else (None, False)
    if path is None:
        return
    state = checkpoints.load_checkpoint(path)
    there = options_of(state)
    heads = cfg.get("head_layout") and read_layout(cfg.head_layout)
    if own:
        heads = _cut_already(cfg, there, heads)
    decision = agree(there, OmegaConf.to_container(cfg, resolve=True), given)
    if decision.refuse:
        file, here = (
            ", ".join(spell(name, pair[i]) for name, pair in decision.refuse.items()) for i in (0, 1)
        )
        raise UserError(
            f"{path} was trained with {file} and these options say {here}: leave them out, and they are "
            f"taken from the file (headprune layout --flags {path} prints all of them)"
        )
    _check_dictionaries(state, task, path)
    _check_gates(state, cfg.get("gate_types") or gate_types, path)
    decision.take["head_layout"] = _layout(state, heads, path)
    with open_dict(cfg):  # a Hydra file lists some options only
        cfg.update(decision.take)
    taken = [spell(name, value) for name, value in decision.take.items() if name != "head_layout"]
    if taken:
        logger.warning("taken from %s: %s", path, ", ".join(taken))


def options_of(state: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint's options, with the layers that it has: some may have been left out of those trained."""
    layers, options = checkpoints.num_layers(state), dict(checkpoints.model_options(state))
    options.update(encoder_layers=layers["enc_self"], decoder_layers=layers["dec_enc"])
    if not checkpoints.log_alphas(state):
        options.update(gate_stretch_low=None, gate_stretch_high=None)
    return options


def _cut_already(cfg, there: dict[str, Any], heads: HeadLayout | None) -> HeadLayout | None:
    """For a run that goes on: the layers that its options keep were chosen when it began."""
    kept = {stack: parse_kept(cfg.get(f"{stack}_layers_to_keep"), sys.maxsize, stack) for stack in STACKS}
    with open_dict(cfg):
        for stack, numbers in kept.items():
            if numbers is not None and len(numbers) == there[f"{stack}_layers"]:
                cfg[f"{stack}_layers"], cfg[f"{stack}_layers_to_keep"] = len(numbers), None
    return cut_layout(heads, kept) if heads else heads


def _layout(state: dict[str, Any], asked: HeadLayout | None, path: str) -> str:
    """The heads of the file, as JSON ("" for all); UserError when others are asked for."""
    stored, existing = checkpoints.stored_layout(state), checkpoints.existing_layout(state)
    if asked and asked != existing:
        raise UserError(
            f"--head-layout asks for other heads than {path} has: leave it out to train the file's heads, or "
            f"remove some first (headprune remove {path} SMALLER.pt --layout ...)"
        )
    return stored.to_json() if stored else ""


def _check_gates(state: dict[str, Any], asked: str, path: str) -> None:
    found = {key for key, _ in checkpoints.log_alphas(state)}
    homeless = sorted(found - set(parse_types(asked))) if found else []
    if homeless:
        raise UserError(
            f"{path} has gates on {', '.join(map(flag, homeless))} and --gate-types {asked} leaves no place "
            "for them: name these types too, or write a file without gates first (headprune remove "
            f"{path} SMALLER.pt)"
        )


def _check_dictionaries(state: dict[str, Any], task, path: str) -> None:
    """UserError, naming the dictionary, when it has another size than the file was trained with."""
    if checkpoints.model_options(state).get("merge_src_tgt_embed"):
        return
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        embedding = state["model"].get(f"{stack}.embed_tokens.weight")
        words = len(getattr(task, f"{side}_dictionary"))
        if embedding is not None and len(embedding) != words:
            language = getattr(task.cfg, f"{side}_lang", side)
            raise UserError(
                f"dict.{language}.txt of the data has {words:,} entries and {path} was trained with "
                f"{len(embedding):,} for the {side}: name the folder of binarised data that it was trained "
                "with, or binarise yours with its dictionaries (fairseq-preprocess --srcdict, --tgtdict)"
            )
