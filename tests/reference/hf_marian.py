"""Hugging Face's MarianMTModel, slow and obvious: one sentence, float64, its files' own names of weights.

Written from the description of the model (post-norm Transformer, sines before cosines with the exponent
i / (width / 2), scaled embeddings, a bias on the logits), and from nothing of ours.
"""

import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file

ACTIVATIONS = {
    "swish": lambda x: x * torch.sigmoid(x),
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def sines(length, width):
    """``[length, width]``, position 0 first."""
    table = torch.zeros(length, width, dtype=torch.float64)
    for position in range(length):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            table[position, i], table[position, width // 2 + i] = math.sin(angle), math.cos(angle)
    return table


class HFMarian:
    """The model in ``folder``. ``tables``: position tables that take the place of the sines, by stack."""

    def __init__(self, folder, tables=None):
        self.config = json.loads((Path(folder) / "config.json").read_text())
        self.state = {k: v.double() for k, v in load_file(Path(folder) / "model.safetensors").items()}
        self.tables = tables or {}

    def linear(self, x, name):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * self.state[f"{name}.weight"] + self.state[f"{name}.bias"]

    def attention(self, x, memory, name, heads, causal):
        d = x.shape[1] // heads

        def split(y, part):
            return self.linear(y, f"{name}.{part}_proj").view(-1, heads, d).transpose(0, 1)

        scores = split(x, "q") @ split(memory, "k").transpose(1, 2) / d**0.5
        if causal:
            later = torch.arange(len(memory))[None] > torch.arange(len(x))[:, None]
            scores = scores.masked_fill(later, -math.inf)
        mixed = scores.softmax(-1) @ split(memory, "v")
        return self.linear(mixed.transpose(0, 1).reshape(len(x), -1), f"{name}.out_proj")

    def stack(self, which, ids, memory=None):
        width = self.config["d_model"]
        words = self.state.get("model.shared.weight", self.state.get(f"model.{which}.embed_tokens.weight"))
        x = words[ids] * (width**0.5 if self.config["scale_embedding"] else 1.0)
        x = x + self.tables[which][: len(ids)] if which in self.tables else x + sines(len(ids), width)
        heads = self.config[f"{which}_attention_heads"]
        for layer in range(self.config[f"{which}_layers"]):
            name = f"model.{which}.layers.{layer}"
            y = self.attention(x, x, f"{name}.self_attn", heads, causal=which == "decoder")
            x = self.norm(x + y, f"{name}.self_attn_layer_norm")
            if memory is not None:
                y = self.attention(x, memory, f"{name}.encoder_attn", heads, causal=False)
                x = self.norm(x + y, f"{name}.encoder_attn_layer_norm")
            y = ACTIVATIONS[self.config["activation_function"]](self.linear(x, f"{name}.fc1"))
            x = self.norm(x + self.linear(y, f"{name}.fc2"), f"{name}.final_layer_norm")
        return x

    def encode(self, source):
        """``[len(source), width]``."""
        return self.stack("encoder", source)

    def logits(self, source, target, memory=None):
        """``[len(target), words]``: the decoder is fed the start token, then ``target`` but its last."""
        start = torch.tensor([self.config["decoder_start_token_id"]])
        memory = self.encode(source) if memory is None else memory
        x = self.stack("decoder", torch.cat([start, target[:-1]]), memory)
        tied = ("lm_head.weight", "model.shared.weight", "model.decoder.embed_tokens.weight")
        output = next(self.state[name] for name in tied if name in self.state)
        return x @ output.T + self.state["final_logits_bias"]
