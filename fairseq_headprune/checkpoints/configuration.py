"""The configuration of a checkpoint of any age, as plain values."""

import dataclasses
import enum
from argparse import Namespace
from typing import Any

from fairseq_headprune.base.errors import UserError


def plain(value: Any) -> Any:
    """Configuration as plain Python values: dictionaries, lists, strings, numbers, None."""
    from omegaconf import OmegaConf

    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value, resolve=True, enum_to_str=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "item"):
        return plain(value.item())
    return str(value)


def configuration(state: dict[str, Any]) -> dict[str, Any]:
    """The whole configuration as plain nested dictionaries, for old (args) checkpoints too."""
    return plain(state["cfg"]) if state.get("cfg") else upgraded(state["args"], "the checkpoint")


def upgraded(args: Any, path: str) -> dict[str, Any]:
    """Options of before sections (2017 to 2020), upgraded as fairseq does; UserError when it cannot."""
    from fairseq import checkpoint_utils

    last = {"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    state = {  # the upgrade is of whole checkpoints, and changes what it is given
        "args": Namespace(**vars(args)),
        "optimizer_history": [last],
        "extra_state": {"train_iterator": None},
    }
    try:
        return plain(checkpoint_utils._upgrade_state_dict(state)["cfg"])
    except UserError:
        raise
    except Exception as error:  # hydra composes it, and fails in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise UserError(f"{path} has options that this fairseq cannot read: {reason}") from None
