"""Hard Concrete gates: one random variable in [0, 1] per attention head.

The distribution is that of Louizos et al. (2018) as used in section 6.1 of Voita et al. (2019):
a binary Concrete variable is stretched to (low, high), low < 0 < 1 < high, and cut off at 0 and 1,
so that both ends have a probability of their own. The pure functions come first, in any floating
dtype; the module that holds one layer's parameters follows.
"""

import math
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fairseq_headprune.base.errors import UserError

TEMPERATURE = 0.33
STRETCH = (-0.1, 1.1)
LIMIT = 4.6
"""Training does not push log alpha beyond +-LIMIT, as Louizos et al. (2018) do: further out the
gradients vanish and a gate that closed too early could never open again. P(open) there is 0.02."""

Stretch = tuple[float, float]


def sample(log_a: Tensor, u: Tensor, temperature: float = TEMPERATURE, stretch: Stretch = STRETCH) -> Tensor:
    """Gate values for uniform noise ``u`` in (0, 1), by the reparameterisation trick.

    g = clip(sigmoid((log u - log(1 - u) + log_a) / temperature) * (high - low) + low, 0, 1).
    ``log_a`` and ``u`` broadcast against each other; differentiable in ``log_a``.
    """
    low, high = stretch
    concrete = torch.sigmoid((torch.logit(u) + log_a) / temperature)
    return torch.clamp(concrete * (high - low) + low, 0.0, 1.0)


def p_open(log_a: Tensor, temperature: float = TEMPERATURE, stretch: Stretch = STRETCH) -> Tensor:
    """P(g != 0), the relaxed L0 norm of one gate (section 6.1)."""
    low, high = stretch
    return torch.sigmoid(log_a - temperature * math.log(-low / high))


def p_zero(log_a: Tensor, temperature: float = TEMPERATURE, stretch: Stretch = STRETCH) -> Tensor:
    """P(g = 0)."""
    low, high = stretch
    return torch.sigmoid(temperature * math.log(-low / high) - log_a)


def p_one(log_a: Tensor, temperature: float = TEMPERATURE, stretch: Stretch = STRETCH) -> Tensor:
    """P(g = 1)."""
    low, high = stretch
    return torch.sigmoid(log_a - temperature * math.log((1.0 - low) / (high - 1.0)))


def hard(log_a: Tensor, temperature: float = TEMPERATURE, stretch: Stretch = STRETCH) -> Tensor:
    """The gate in evaluation: 1 where P(g = 1) > P(g = 0), else 0 (footnote 6), in log_a's dtype."""
    # compared as logits: the probabilities themselves tie where both round to 0 or 1
    low, high = stretch
    middle = 0.5 * temperature * math.log(-low / high * (1.0 - low) / (high - 1.0))
    return (log_a > middle).to(log_a.dtype)


def decided(
    log_a: Tensor,
    threshold: float = 0.9,
    temperature: float = TEMPERATURE,
    stretch: Stretch = STRETCH,
) -> tuple[Tensor, Tensor]:
    """Masks (open, closed) of gates with P(g = 1), or P(g = 0), of at least ``threshold``.

    Gates in neither are undecided: evaluation rounds them to a value that training rarely saw.
    """
    return (
        p_one(log_a, temperature, stretch) >= threshold,
        p_zero(log_a, temperature, stretch) >= threshold,
    )


def check_options(temperature: float, stretch: Stretch, init: float, lr_scale: float) -> None:
    """UserError unless the options describe a Hard Concrete distribution that can be trained."""
    low, high = stretch
    if not 0 < temperature < math.inf:
        raise UserError(f"--gate-temperature must be a positive number, not {temperature}")
    if not (-math.inf < low < 0 and 1 < high < math.inf):
        raise UserError(
            "--gate-stretch-low must be below 0 and --gate-stretch-high above 1, "
            f"not {low} and {high}: otherwise gates cannot become exactly 0 or 1"
        )
    if not math.isfinite(init):
        raise UserError(f"--gate-init must be a finite number, not {init}")
    if not (lr_scale > 0 and math.isfinite(lr_scale)):
        raise UserError(f"--gate-lr-scale must be positive, not {lr_scale}")


class HeadGates(nn.Module):
    """The gates of one attention layer.

    The parameter is ``scaled_log_a`` [heads] = log_a / lr_scale, and the gradient of log_a is
    handed to it unscaled: an optimiser step of size s moves log_a by s * lr_scale. That makes the
    gates' learning rate a multiple of the model's with any optimiser, for mixed precision
    too, where fairseq keeps all parameters in one flat tensor and parameter groups do not survive.
    """

    lr_scale: Tensor
    threshold: Tensor
    scaled_log_a: nn.Parameter

    def __init__(
        self,
        num_heads: int,
        temperature: float = TEMPERATURE,
        stretch: Stretch = STRETCH,
        init: float = 2.0,
        lr_scale: float = 30.0,
    ):
        super().__init__()
        self.temperature = float(temperature)
        self.stretch = (float(stretch[0]), float(stretch[1]))
        self.init_log_a = float(init)
        self.scaled_log_a = nn.Parameter(torch.full((num_heads,), float(init) / float(lr_scale)))
        # kept in the checkpoint, so that a reader of the file, or a run resumed with another
        # --gate-lr-scale, still knows what log_a is
        self.register_buffer("lr_scale", torch.tensor(float(lr_scale)))
        # 0 is footnote 6; pruning to a given number of heads moves it to keep exactly that many
        self.register_buffer("threshold", torch.tensor(0.0))
        self.fixed_noise: Tensor | None = None

    @property
    def log_a(self) -> Tensor:
        """log alpha [heads], float32 or better."""
        return self.current_log_a()

    def current_log_a(self) -> Tensor:
        """As ``log_a``; a method, since TorchScript has no properties of submodules."""
        raw: Tensor = self.scaled_log_a
        if raw.dtype == torch.float16 or raw.dtype == torch.bfloat16:
            raw = raw.float()
        log_a = raw + (raw * (self.lr_scale.to(raw.dtype) - 1.0)).detach()
        if not torch.jit.is_scripting():
            if log_a.requires_grad:
                _limit_gradient(log_a)
        return log_a

    def forward(self) -> Tensor:
        """Gate values [heads]: freshly sampled in training, exactly 0 or 1 otherwise."""
        log_a = self.current_log_a()
        if not self.training:
            return hard(log_a - self.threshold.to(log_a), self.temperature, self.stretch)
        u = self.fixed_noise
        if u is None:
            # float32 noise away from the ends: in half precision 1 - 1e-6 is 1 and log(1 - u) infinite
            u = torch.empty_like(log_a).uniform_(1e-6, 1.0 - 1e-6)
        return sample(log_a, u.to(log_a), self.temperature, self.stretch)

    @torch.jit.unused
    def is_open(self) -> list[bool]:
        """Which heads act in evaluation, one entry a gate."""
        value = hard(self.log_a - self.threshold.to(self.log_a), self.temperature, self.stretch)
        return [g > 0 for g in value.tolist()]

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        key = prefix + "lr_scale"
        if key in state_dict and prefix + "scaled_log_a" in state_dict:
            ratio = state_dict[key].float() / self.lr_scale.float().cpu()
            weight = state_dict[prefix + "scaled_log_a"]
            if ratio.item() != 1.0:
                state_dict[prefix + "scaled_log_a"] = (weight.float() * ratio).to(weight.dtype)
                state_dict[key] = self.lr_scale.detach().clone().cpu()
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _limit_gradient(log_a: Tensor) -> None:
    """Apply ``_stay_within_limit`` on the way back; apart, since TorchScript reads no lambda."""
    value = log_a.detach()
    log_a.register_hook(lambda gradient: _stay_within_limit(value, gradient))


def _stay_within_limit(log_a: Tensor, gradient: Tensor) -> Tensor:
    """No gradient for gates that are at the limit and would, in descent, move further out."""
    outward = (log_a.abs() > LIMIT) & (gradient * log_a < 0)
    return gradient.masked_fill(outward, 0.0)


@contextmanager
def fixed_noise(modules, seed: int):
    """While open, every HeadGates among ``modules`` draws the same noise at each call.

    For comparing gradients between ways of splitting one batch.
    """
    generator = torch.Generator().manual_seed(seed)
    gates = [m for m in modules if isinstance(m, HeadGates)]
    for gate in gates:
        gate.fixed_noise = torch.rand(gate.scaled_log_a.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
    try:
        yield
    finally:
        for gate in gates:
            gate.fixed_noise = None
