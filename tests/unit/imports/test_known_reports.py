"""Forms that converters of Marian models are known to stumble over: what is imported must compute the same as
the slow references, which read the files by themselves."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.exports import marian as marian_export
from fairseq_headprune.imports import hf_folder, marian, names
from fairseq_headprune.imports.source import Source, expected_shapes
from fairseq_headprune.imports.vocabulary import Vocabulary
from tests.helpers.imported import fairseq_ids, open_source
from tests.reference.hf_marian import HFMarian
from tests.reference.marian import Reference

WORDS = {"one": 40, "other": 53}


def numbers(shape, name):
    """Random weights of ordinary size, of a parameter's name and shape."""
    draw = np.random.default_rng(sum(map(ord, name)))
    scale = 0.3 if len(shape) == 1 else shape[-1] ** -0.5
    return (draw.normal(size=shape) * scale + ("norm.weight" in name)).astype(np.float32)


def hugging_face(place, **config):
    """A folder of a small ``MarianMTModel``; ``config`` overrides."""
    place.mkdir()
    shared = config.get("share_encoder_decoder_embeddings", True)
    sizes = [WORDS["one"], WORDS["one"] if shared else WORDS["other"]]
    for file, size in zip(("vocab.json", "target_vocab.json"), sizes):
        if file == "vocab.json" or not shared:
            words = ["</s>", "<unk>", "<pad>", *(f"{file[0]}{i}" for i in range(size - 3))]
            (place / file).write_text(json.dumps({w: i for i, w in enumerate(words)}))
    whole = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "activation_function": "swish",
        "d_model": 24,
        **{f"{s}_{n}": v for s in ("encoder", "decoder") for n, v in (("layers", 2), ("ffn_dim", 20))},
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "decoder_start_token_id": 2,
        "pad_token_id": 2,
        "eos_token_id": 0,
        "max_position_embeddings": 64,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": shared,
        "tie_word_embeddings": True,
        **config,
    }
    (place / "config.json").write_text(json.dumps(whole))
    width, arrays = whole["d_model"], {"final_logits_bias": numbers((1, sizes[1]), "bias")}
    if shared:
        arrays["model.shared.weight"] = numbers((sizes[0], width), "words")
    else:
        arrays["model.encoder.embed_tokens.weight"] = numbers((sizes[0], width), "source")
        arrays["model.decoder.embed_tokens.weight"] = numbers((sizes[1], width), "target")
    if not whole["tie_word_embeddings"]:
        arrays["lm_head.weight"] = numbers((sizes[1], width), "output")
    for stack in ("encoder", "decoder"):
        for layer in range(whole[f"{stack}_layers"]):
            start, ffn = f"model.{stack}.layers.{layer}", whole[f"{stack}_ffn_dim"]
            linear = {f"{start}.fc1": (ffn, width), f"{start}.fc2": (width, ffn)}
            norms = [f"{start}.final_layer_norm"]
            for part in ("self_attn", "encoder_attn") if stack == "decoder" else ("self_attn",):
                norms.append(f"{start}.{part}_layer_norm")
                linear.update({f"{start}.{part}.{p}_proj": (width, width) for p in ("q", "k", "v", "out")})
            for name, shape in linear.items():
                arrays[f"{name}.weight"] = numbers(shape, f"{name}.weight")
                arrays[f"{name}.bias"] = numbers(shape[:1], f"{name}.bias")
            for name in norms:
                arrays[f"{name}.weight"] = numbers((width,), f"{name}.weight")
                arrays[f"{name}.bias"] = numbers((width,), f"{name}.bias")
    save_file({n: torch.from_numpy(a) for n, a in arrays.items()}, place / "model.safetensors")
    return place


def logits(model, source, inputs, outputs):
    """``[steps, words]`` of our model in the order of the other program's ids."""
    one, other = (fairseq_ids(v.words) for v in source.vocabularies)
    prev = torch.cat([torch.tensor([2]), other[outputs[:-1]]])[None]
    with torch.no_grad():
        out = model(one[inputs][None], torch.tensor([len(inputs)]), prev)[0][0]
    return out[:, other].double()


INPUTS = torch.tensor([5, 12, 9, 31, 7, 0])
OUTPUTS = torch.tensor([8, 33, 4, 0])


@pytest.mark.parametrize(
    "config",
    [
        {"share_encoder_decoder_embeddings": False},
        {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
        {"d_model": 36, "decoder_layers": 4, "encoder_attention_heads": 6},
        {"decoder_start_token_id": 0},
        {"scale_embedding": False, "activation_function": "relu", "decoder_layers": 1},
        {"activation_function": "gelu"},
        {"activation_function": "gelu_new"},
        {"activation_function": "quick_gelu"},
    ],
    ids=[
        "separate vocabularies",
        "separate and untied",
        "sizes",
        "starts with </s>",
        "unscaled",
        "gelu",
        "tanh",
        "quick",
    ],
)
def test_hugging_face_forms(tmp_path, config):
    folder = hugging_face(tmp_path / "hf", **config)
    source = hf_folder.read(folder)
    model, task = open_source(source, tmp_path / "model")
    separate = not config.get("share_encoder_decoder_embeddings", True)
    assert len(task.target_dictionary) - len(task.source_dictionary) == (13 if separate else 0)
    found = logits(model, source, INPUTS, OUTPUTS)
    torch.testing.assert_close(found, HFMarian(folder).logits(INPUTS, OUTPUTS), atol=1e-4, rtol=1e-4)
    # and what a converter gets wrong is seen: the bias left out, another start
    wrong = HFMarian(folder)
    wrong.state["final_logits_bias"] = torch.zeros(1)
    assert (found - wrong.logits(INPUTS, OUTPUTS)).abs().max() > 0.1
    wrong = HFMarian(folder)
    wrong.config["decoder_start_token_id"] = 1
    assert (found - wrong.logits(INPUTS, OUTPUTS)).abs().max() > 0.01


def test_a_tied_matrix_may_be_stored_again(tmp_path):
    folder = hugging_face(tmp_path / "hf")
    state = load_file(folder / "model.safetensors")
    for name in ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"):
        state[name] = state["model.shared.weight"].clone()
    save_file(state, folder / "model.safetensors")
    source = hf_folder.read(folder)
    model, _ = open_source(source, tmp_path / "model")
    wanted = HFMarian(folder).logits(INPUTS, OUTPUTS)
    torch.testing.assert_close(logits(model, source, INPUTS, OUTPUTS), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "drop, said",
    [
        ("final_logits_bias", "final_logits_bias is missing"),
        ("model.decoder.layers.1.fc2.bias", "decoder.layers.1.fc2.bias is missing"),
    ],
)
def test_a_bias_that_was_left_out_is_named(tmp_path, drop, said):
    folder = hugging_face(tmp_path / "hf")
    state = load_file(folder / "model.safetensors")
    del state[drop]
    save_file(state, folder / "model.safetensors")
    with pytest.raises(UserError, match=said):
        hf_folder.read(folder)


@pytest.mark.parametrize("start", [None, 1, 7, 500])
def test_another_start_token_is_named(tmp_path, start):
    with pytest.raises(UserError, match="decoder_start_token_id"):
        hf_folder.read(hugging_face(tmp_path / "hf", decoder_start_token_id=start))


def marian_file(path, **change):
    """A student as Firefox has them, of random weights; the model and its vocabularies."""
    options = {
        **{"encoder_layers": 2, "decoder_layers": 3, "encoder_embed_dim": 384, "decoder_embed_dim": 384},
        **{"encoder_attention_heads": 8, "decoder_attention_heads": 8, "ssru": True, "activation_fn": "relu"},
        **{"encoder_ffn_embed_dim": 30, "decoder_ffn_embed_dim": 30, "layernorm_embedding": False},
        **{"share_all_embeddings": True, "share_decoder_input_output_embed": True, "output_bias": True},
        **{"position_encoding": "marian", "decoder_start": "zero", **change},
    }
    sizes = (40, 40) if options["share_all_embeddings"] else (40, 53)
    lists = [["</s>", "<unk>", *(f"w{i}" for i in range(size - 2))] for size in sizes]
    tensors = {name: numbers(shape, name) for name, shape in expected_shapes(options, sizes).items()}
    if options["share_all_embeddings"]:
        tensors[names.DECODER_EMBEDDING] = tensors[names.ENCODER_EMBEDDING]
    one, other = (Vocabulary(words, [1] * len(words), "", path) for words in lists)
    marian_export.write(Source(path, options, tensors, (one, other), (None, None)), path)
    return marian.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"decoder_layers": 4},
        {"share_all_embeddings": False},
        {"share_all_embeddings": False, "share_decoder_input_output_embed": False, "ssru": False},
    ],
    ids=["3 layers, width 384", "4 layers", "separate vocabularies", "separate and untied"],
)
def test_marian_forms(tmp_path, change):
    source = marian_file(tmp_path / "m.npz", **change)
    model, _ = open_source(source, tmp_path / "model")
    found = logits(model, source, INPUTS, OUTPUTS)
    wanted = Reference(source.options, source.tensors).logits(INPUTS, OUTPUTS)
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_a_marian_bias_that_was_left_out_is_named(tmp_path):
    source = marian_file(tmp_path / "m.npz")
    with np.load(source.file) as file:
        kept = {name: file[name] for name in file.files if name != "decoder_ff_logit_out_b"}
    np.savez(tmp_path / "m.npz", **kept)
    with pytest.raises(UserError, match="decoder.output_projection.bias is missing"):
        marian.read(tmp_path / "m.npz")
