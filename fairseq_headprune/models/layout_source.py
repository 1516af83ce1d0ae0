"""Where a model that is being built takes its head layout from."""

import os

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import HeadLayout


def read_layout(value: str, option: str = "--head-layout") -> HeadLayout:
    """The value of an option: the JSON itself, a JSON file, or a checkpoint whose heads to copy."""
    if value.lstrip().startswith("{"):
        return HeadLayout.from_json(value, option)
    if not os.path.exists(value):
        raise UserError(
            f"{option} {value} does not exist: name a JSON file or a checkpoint"
            if value.strip()
            else f"{option} is empty: name a file"
        )
    if os.path.isdir(value):
        raise UserError(f"{option} {value} is a folder: name a JSON file or a checkpoint in it")
    if value.endswith(".pt"):
        from fairseq_headprune.checkpoints.reading import checkpoint_layout, load_checkpoint

        return checkpoint_layout(load_checkpoint(value))
    return HeadLayout.load(value)


def embed_layout(cfg, layout: HeadLayout) -> None:
    """Write the layout itself over the file name in the options, here and in the trainer's copy,
    so that the checkpoint says what heads it has when the file is long gone."""
    text = layout.to_json()
    cfg.head_layout = text
    root = cfg._get_parent() if hasattr(cfg, "_get_parent") else None
    model = root.get("model", None) if root is not None else None
    if model is not None and "head_layout" in model:
        model.head_layout = text
