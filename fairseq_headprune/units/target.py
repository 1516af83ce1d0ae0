"""Prune to a given number of heads: a multiplier that is learned until the count is met.

Beyond the paper, whose lambda is fixed. The penalty weight of a group of heads becomes
m + RHO * (E - K), with E the expected number of open heads and K the target; m integrates the error,
so that it settles at the weight under which K heads are worth keeping. Gates that are still
undecided then cannot spoil the count: evaluation keeps the K most open ones (``threshold``).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn, tensor

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units import gates
from fairseq_headprune.units.layout import ATTENTION_TYPES, flag, parse_type

RATE = 1e-3
"""Change of m per update when the whole group is in excess, in nats per head and token."""
RHO = 5e-4
"""Damping: immediate pressure per head in excess, in the same unit."""
LIMIT = 1.0
"""m stays within +-LIMIT; no head of a translation model is worth a nat per token."""


def parse_target(text: str, option: str = "the number of heads") -> dict[str, int]:
    """``"20"`` -> {"total": 20}; ``"enc-self=10,dec-self=20"`` -> {"enc_self": 10, "dec_self": 20}.

    UserError, by the name of the ``option``, for anything else.
    """
    text = text.strip()
    if text.isdecimal():
        return {"total": int(text)}
    target: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if not number.strip().isdecimal():
            raise UserError(
                f"cannot read {option} '{text}': write a number, or one per type like enc-self=10,dec-self=20"
            )
        try:
            key = parse_type(name)
        except UserError as error:
            raise UserError(f"{option} '{text}': {error}") from None
        if key in target:
            raise UserError(f"{option} '{text}' gives {flag(key)} twice")
        target[key] = int(number)
    return target


def check_target(target: Mapping[str, int], available: Mapping[str, int], option: str) -> None:
    """UserError when a target asks for more heads than ``available`` has per type."""
    for key, wanted in target.items():
        have = sum(available.values()) if key == "total" else available.get(key, 0)
        where = "in all" if key == "total" else f"of type {flag(key)}"
        if wanted > have:
            raise UserError(f"{option} asks for {wanted} heads {where}, the model has {have} to choose from")


def check_translates(target: Mapping[str, int], option: str) -> None:
    """UserError for a target under which nothing could be translated."""
    if target.get("total") == 0:
        raise UserError(f"{option} asks for no head at all: say how many are to stay")
    if target.get("dec_enc") == 0:
        raise UserError(
            f"{option} leaves no dec-enc head, without which nothing can be translated: ask for some"
        )


def groups(target: Mapping[str, int]) -> dict[str, tuple]:
    """Name of each constraint -> the attention types it counts."""
    return {k: ATTENTION_TYPES if k == "total" else (k,) for k in target}


def expected_heads(log_a: Tensor, temperature: float, stretch) -> Tensor:
    """Sum of P(open), rescaled so that gates at the limits of log alpha count as exactly 0 and 1.

    Otherwise a hundred closed gates with P(open) = 0.02 would pass for two heads.
    """
    ends = tensor([-gates.LIMIT, gates.LIMIT], dtype=log_a.dtype, device=log_a.device)
    low, high = gates.p_open(ends, temperature, stretch)
    return ((gates.p_open(log_a, temperature, stretch) - low) / (high - low)).sum()


def threshold(log_a: Tensor, wanted: int, middle: float = 0.0) -> float:
    """The log alpha above which exactly ``wanted`` gates lie (any shape of ``log_a``).

    ``middle``, the value of footnote 6, whenever that already separates them.
    """
    ranked = sorted(log_a.detach().flatten().tolist(), reverse=True)
    above = ranked[wanted - 1] if wanted > 0 else float("inf")
    below = ranked[wanted] if wanted < len(ranked) else float("-inf")
    if above > middle >= below:
        return middle
    if wanted == 0:
        return below + 1.0
    if wanted == len(ranked):
        return above - 1.0
    return 0.5 * (above + below)


def step(multiplier: float, excess: float, heads: int) -> float:
    """The multiplier after one update, for a group of ``heads`` heads."""
    return max(-LIMIT, min(LIMIT, multiplier + RATE * excess / max(heads, 1)))


class LearnedTarget(nn.Module):
    """The multipliers of a run, which belong to the model, so that a resumed run goes on with them."""

    multiplier: Tensor

    def __init__(self):
        super().__init__()
        # by the first attention type of a group
        self.register_buffer("multiplier", torch.zeros(len(ATTENTION_TYPES)))
        self.last_update: int | None = None

    @torch.jit.unused
    def penalty(
        self,
        target: Mapping[str, int],
        gates_of: Mapping[str, Sequence[gates.HeadGates]],
        log_a_of: Mapping[str, Tensor],
        update: int,
        ramp: float,
    ) -> Tensor | float:
        """Penalty in nats per target token. In training the multipliers move, once an update.

        Args:
            target: heads wanted of each group, see `parse_target`.
            gates_of: gates by attention type, of the layers that have some; `log_a_of` their log alpha,
                one tensor a type.
            update: number of the update.
            ramp: share of the full weight at this update, 0 to 1.
        """
        moving = self.training and update != self.last_update
        total: Tensor | float = 0.0
        for name, types in groups(target).items():
            layers = [gate for t in types for gate in gates_of.get(t, [])]
            log_a = torch.cat([log_a_of[t] for t in types if t in gates_of])
            excess = expected_heads(log_a, layers[0].temperature, layers[0].stretch) - target[name]
            slot = ATTENTION_TYPES.index(next(t for t in types if t in gates_of))
            if moving:
                self.multiplier[slot] = step(
                    float(self.multiplier[slot]), float(excess.detach()), log_a.numel()
                )
            # in validation too: it comes after the last update and before a checkpoint is written
            if ramp >= 1.0 and (moving or not self.training):
                level = threshold(log_a, target[name])
                for gate in layers:
                    gate.threshold.fill_(level)
            total = total + float(self.multiplier[slot]) * excess + 0.5 * RHO * excess * excess
        if moving:
            self.last_update = update
        return ramp * total
