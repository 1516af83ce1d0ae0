"""fairseq-train with gate noise held fixed, so that ways of splitting a batch can be compared."""

import torch

import fairseq_headprune  # noqa: F401
from fairseq_headprune.units.gates import HeadGates

original = HeadGates.__init__


def with_noise(self, num_heads, *args, **kwargs):
    original(self, num_heads, *args, **kwargs)
    self.fixed_noise = torch.linspace(0.2, 0.8, num_heads)


HeadGates.__init__ = with_noise

if __name__ == "__main__":
    from fairseq_cli.train import cli_main

    cli_main()
