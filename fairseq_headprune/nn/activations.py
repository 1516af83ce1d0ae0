"""Activation functions that other toolkits have and fairseq does not, by their name in --activation-fn."""

import torch
import torch.nn.functional as F
from torch import Tensor


def gelu_sigmoid(x: Tensor) -> Tensor:
    """x * sigmoid(1.702 x): what Marian calls gelu (and Hugging Face quick_gelu)."""
    return x * torch.sigmoid(1.702 * x)


MORE = {"swish": F.silu, "gelu_sigmoid": gelu_sigmoid}
"""fairseq knows "swish" too, but takes the module's class for the function."""
