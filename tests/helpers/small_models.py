"""Small Transformers with random weights, and one that carries weights of the authors' model."""

from argparse import Namespace

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from torch import nn


def dictionary(words: int) -> Dictionary:
    """A dictionary of ``words`` symbols besides fairseq's four."""
    symbols = Dictionary()
    for i in range(words):
        symbols.add_symbol(f"w{i}")
    return symbols


def small_transformer(words: int = 12, seed: int = 1, bias: float = 0.1, **options) -> nn.Module:
    """A stock ``transformer`` in eval mode; every parameter is random, biases of size ``bias``.

    2+2 layers, 4 heads, width 16, feed-forward 24 unless ``options`` (names of flags) say otherwise.
    """
    args = dict(
        encoder_layers=2,
        decoder_layers=2,
        encoder_embed_dim=16,
        encoder_ffn_embed_dim=24,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        decoder_ffn_embed_dim=24,
        max_source_positions=64,
        max_target_positions=64,
    )
    args.update(options)
    args = Namespace(**args)
    base_architecture(args)
    symbols = dictionary(words)
    task = Namespace(source_dictionary=symbols, target_dictionary=symbols)
    torch.manual_seed(seed)
    model = TransformerModel.build_model(args, task)
    randomise(model, seed, bias)
    return model.eval()


def randomise(model: nn.Module, seed: int, bias: float) -> None:
    """Weights of ordinary size, and biases and norms that are not their trivial initial values."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if "norm" in name and name.endswith("weight"):
                parameter.copy_(1 + 2 * bias * noise)
            elif name.endswith("bias"):
                parameter.copy_(bias * noise)
            elif "embed" in name:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
            elif parameter.dim() > 1:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)


def batch(lengths, words: int = 12, seed: int = 2, left_pad_source: bool = True):
    """(src_tokens, src_lengths, prev_output_tokens, target) for ``lengths`` = [(source, target), ..],
    sentences as fairseq makes them: EOS at the end, moved to the front in the decoder's input."""
    symbols = dictionary(words)
    generator = torch.Generator().manual_seed(seed)
    pad, eos = symbols.pad(), symbols.eos()

    def sentence(length):
        ids = torch.randint(4, len(symbols), (length - 1,), generator=generator)
        return torch.cat([ids, torch.tensor([eos])])

    sources = [sentence(s) for s, _ in lengths]
    targets = [sentence(t) for _, t in lengths]
    src = torch.full([len(lengths), max(map(len, sources))], pad)
    tgt = torch.full([len(lengths), max(map(len, targets))], pad)
    prev = tgt.clone()
    for i, (s, t) in enumerate(zip(sources, targets)):
        if left_pad_source:
            src[i, -len(s) :] = s
        else:
            src[i, : len(s)] = s
        tgt[i, : len(t)] = t
        prev[i, 0], prev[i, 1 : len(t)] = eos, t[:-1]
    return src, torch.tensor([s for s, _ in lengths]), prev, tgt


# -- the authors' model -------------------------------------------------------------


class AuthorsPositions(nn.Module):
    """[sin | cos] halves from position 0, plus a bias that the authors add to source embeddings."""

    max_positions = 64

    def __init__(self, width: int, bias: torch.Tensor):
        super().__init__()
        half = width // 2
        scale = np.exp(-np.arange(half) * np.log(1e4) / (half - 1))
        angles = np.arange(64)[:, None] * scale[None]
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        self.register_buffer("table", torch.from_numpy(table) + bias)

    def forward(self, tokens, incremental_state=None):
        return self.table[: tokens.shape[1]].expand(*tokens.shape, -1)


def authors_model(weights) -> nn.Module:
    """A stock fairseq Transformer in float64 that computes what the authors' 'nlda' model does.

    ``weights`` is their dump. Source and target ids are theirs; one more id is padding, and the
    decoder starts from another one whose embedding is zero: see ``authors_input``.
    """
    width = weights["mod/emb_inp/mat"].shape[1]
    model = small_transformer(
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        encoder_ffn_embed_dim=32,
        decoder_ffn_embed_dim=32,
    ).double()

    def tensor(name):
        return torch.from_numpy(np.asarray(weights[name], dtype=np.float64))

    def linear(module, name, columns=slice(None)):
        module.weight.data = tensor(f"{name}/W")[:, columns].T.contiguous()
        module.bias.data = tensor(f"{name}/b")[columns].contiguous()

    def norm(module, name):
        module.weight.data = tensor(f"{name}/scale")
        module.bias.data = tensor(f"{name}/bias")
        module.eps = 1e-6

    def embed(stack, name, extra, bias):
        mat = tensor(name)
        table = torch.cat([mat, torch.zeros(extra, width, dtype=mat.dtype)])
        stack.padding_idx = len(table) - 1
        stack.embed_tokens = nn.Embedding.from_pretrained(table)
        stack.embed_positions = AuthorsPositions(width, bias).double()

    embed(model.encoder, "mod/emb_inp/mat", 1, tensor("mod/emb_inp_bias")[0])
    embed(model.decoder, "mod/emb_out/mat", 2, torch.zeros(1, width, dtype=torch.float64))
    q, k, v = (slice(i * width, (i + 1) * width) for i in range(3))
    for prefix, stack in (("enc", model.encoder), ("dec", model.decoder)):
        norm(stack.layer_norm, f"mod/{prefix}_out_norm")
        for i, layer in enumerate(stack.layers):
            name = f"mod/{prefix}_attn-{i}"
            norm(layer.self_attn_layer_norm, f"{name}/layer_norm")
            for module, columns in zip(("q_proj", "k_proj", "v_proj"), (q, k, v)):
                linear(getattr(layer.self_attn, module), f"{name}/mem_conv", columns)
            linear(layer.self_attn.out_proj, f"{name}/out_conv")
            if prefix == "dec":
                name = f"mod/dec_enc_attn-{i}"
                norm(layer.encoder_attn_layer_norm, f"{name}/layer_norm")
                linear(layer.encoder_attn.q_proj, f"{name}/query_conv")
                linear(layer.encoder_attn.k_proj, f"{name}/mem_conv", q)
                linear(layer.encoder_attn.v_proj, f"{name}/mem_conv", k)
                linear(layer.encoder_attn.out_proj, f"{name}/out_conv")
            name = f"mod/{prefix}_ffn-{i}"
            norm(layer.final_layer_norm, f"{name}/layer_norm")
            linear(layer.fc1, f"{name}/conv1")
            linear(layer.fc2, f"{name}/conv2")
    logits = tensor("loss_xent_lm/logits/W").T.contiguous()
    model.decoder.output_projection = nn.Linear(width, len(logits), bias=False)
    model.decoder.output_projection.weight.data = logits
    return model.eval()


def authors_input(run: str, forward):
    """(src_tokens, src_lengths, prev_output_tokens) of one run of their forward dump."""
    src = torch.from_numpy(forward[f"{run}/inp"]).long()
    out = torch.from_numpy(forward[f"{run}/out"]).long()
    src_lengths = torch.from_numpy(forward[f"{run}/inp_len"]).long()
    out_lengths = torch.from_numpy(forward[f"{run}/out_len"]).long()
    start, pad_source, pad_target = 14, 12, 15
    prev = torch.cat([torch.full_like(out[:, :1], start), out[:, :-1]], dim=1)
    src = src.masked_fill(torch.arange(src.shape[1]) >= src_lengths[:, None], pad_source)
    prev = prev.masked_fill(torch.arange(out.shape[1]) >= out_lengths[:, None], pad_target)
    return src, src_lengths, prev
