"""A Marian Transformer, slow and obvious: one sentence, float64, every formula written out.

Attention is All You Need (post-norm), with the SSRU of Kim et al. (2019), section 3.1, as the decoder's
first part
where a model has one. Parameters have fairseq's names; embeddings are in the source's order of words.
"""

import math

import torch


def positions(length, width, table=None, exponent=None):
    """``[length, width]``: sines in the first half, cosines in the second, or the learned table's rows."""
    if table is not None:
        return table[:length]
    half = width // 2
    rates = torch.exp(-math.log(10000) * torch.arange(half).double() / (exponent or half - 1))
    angles = torch.arange(length).double()[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


class Reference:
    """``options`` as imports.options gives them, ``tensors`` by name; ``exponent``: divisor of the exponent
    of the
    sines, half the width less 1 in Marian and half the width in Hugging Face."""

    def __init__(self, options, tensors, exponent=None):
        self.o = options
        self.t = {name: torch.as_tensor(array).double() for name, array in tensors.items()}
        self.exponent = exponent

    def norm(self, x, name):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return (x - mean) / (variance + 1e-5).sqrt() * self.t[name + ".weight"] + self.t[name + ".bias"]

    def linear(self, x, name):
        return x @ self.t[name + ".weight"].T + self.t[name + ".bias"]

    def attention(self, x, keys, name, heads, causal=False):
        q, k, v = (self.linear(y, f"{name}.{p}_proj") for y, p in ((x, "q"), (keys, "k"), (keys, "v")))
        width, out = x.shape[1] // heads, []
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            scores = q[:, part] @ k[:, part].T / math.sqrt(width)
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
            out.append(scores.softmax(-1) @ v[:, part])
        return self.linear(torch.cat(out, 1), f"{name}.out_proj")

    def ssru(self, x, name):
        forget = torch.sigmoid(self.linear(x, f"{name}.forget"))
        new = x @ self.t[f"{name}.value.weight"].T
        cell, out = torch.zeros(x.shape[1]).double(), []
        for t in range(len(x)):
            cell = forget[t] * cell + (1 - forget[t]) * new[t]
            out.append(cell.relu())
        return torch.stack(out)

    def feed_forward(self, x, name):
        y = self.linear(x, f"{name}.fc1")
        y = {
            "relu": torch.relu,
            "swish": lambda z: z * z.sigmoid(),
            "tanh": torch.tanh,
            "gelu": lambda z: z * 0.5 * (1 + torch.erf(z / math.sqrt(2))),
            "gelu_sigmoid": lambda z: z * (1.702 * z).sigmoid(),
        }[self.o["activation_fn"]](y)
        return self.linear(y, f"{name}.fc2")

    def embed(self, vectors, stack):
        scale = math.sqrt(vectors.shape[1]) if self.o["scale_embedding"] else 1
        table = self.t.get(f"{stack}.embed_positions.weight") if self.o["learned_positions"] else None
        return vectors * scale + positions(*vectors.shape, table, self.exponent)

    def encode(self, source):
        x = self.embed(self.t["encoder.embed_tokens.weight"][source], "encoder")
        for i in range(self.o["encoder_layers"]):
            name, heads = f"encoder.layers.{i}", self.o["encoder_attention_heads"]
            x = self.norm(
                x + self.attention(x, x, f"{name}.self_attn", heads), f"{name}.self_attn_layer_norm"
            )
            x = self.norm(x + self.feed_forward(x, name), f"{name}.final_layer_norm")
        return x

    def logits(self, source, target, start=None):
        """``[len(target), words]`` logits of each word after those before it; ``start``: the first input's
        word, None for the zero vector."""
        memory = self.encode(source)
        words = self.t["decoder.embed_tokens.weight"]
        before = torch.cat(
            [words[start][None] if start is not None else torch.zeros_like(words[:1]), words[target[:-1]]]
        )
        x = self.embed(before, "decoder")
        for i in range(self.o["decoder_layers"]):
            name, heads = f"decoder.layers.{i}", self.o["decoder_attention_heads"]
            part = f"{name}.self_attn"
            y = self.ssru(x, part) if self.o["ssru"] else self.attention(x, x, part, heads, causal=True)
            x = self.norm(x + y, f"{name}.self_attn_layer_norm")
            y = self.attention(x, memory, f"{name}.encoder_attn", heads)
            x = self.norm(x + y, f"{name}.encoder_attn_layer_norm")
            x = self.norm(x + self.feed_forward(x, name), f"{name}.final_layer_norm")
        output = (
            words
            if self.o["share_decoder_input_output_embed"]
            else self.t["decoder.output_projection.weight"]
        )
        bias = self.t["decoder.output_projection.bias"].reshape(-1) if self.o["output_bias"] else 0
        return x @ output.T + bias
