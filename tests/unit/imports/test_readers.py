"""Files of other programs: what they hold, and what is refused in one sentence."""

import json
import struct

import numpy as np
import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports import (
    hf_folder,
    marian,
    marian_bin,
    marian_npz,
    names,
    options,
    vocabulary,
    yaml_files,
)
from tests.reference.marian import Reference

CONFIG = {
    "type": "transformer",
    "dim-emb": "8",
    "dim-vocabs": ["6", "6"],
    "enc-depth": "1",
    "dec-depth": "3",
    "transformer-heads": "2",
    "transformer-dim-ffn": "12",
    "transformer-ffn-activation": "relu",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-preprocess": "",
    "transformer-postprocess-top": "",
    "tied-embeddings-all": "true",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
}


def binary(items):
    """The bytes of a .bin of ``(name, type, shape, data)``."""
    out = struct.pack("<QQ", 1, len(items))
    for name, kind, shape, data in items:
        out += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    out += b"".join(name.encode() + b"\0" for name, *_ in items)
    out += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    pad = -(len(out) + 8) % 256
    return out + struct.pack("<Q", pad) + bytes(pad) + b"".join(data for *_, data in items)


def int8(values, multiplier):
    data = values.astype(np.int8).tobytes() + struct.pack("<f", multiplier)
    return data + bytes(-len(data) % 256)


ITEMS = [
    ("Wemb", 0x4101, (3, 2), int8(np.array([[1, 2], [3, 4], [5, -6]]), 2.0)),
    ("encoder_l1_self_Wq", 0x4101, (2, 3), int8(np.array([[1, 2], [3, 4], [5, 6]]), 4.0)),
    ("encoder_l1_self_Wq_QuantMultA", 0x404, (1, 1), struct.pack("<f", 9.0)),
    ("encoder_l1_self_bq", 0x404, (1, 3), np.array([1, 2, 3], "<f4").tobytes()),
    ("special:model.yml", 0x101, (8,), b"type: x\0"),
]


def test_bin_of_int8_and_float32(tmp_path):
    (tmp_path / "m.bin").write_bytes(binary(ITEMS))
    text, tensors = marian_bin.read(tmp_path / "m.bin")
    assert text == "type: x" and set(tensors) == {"Wemb", "encoder_l1_self_Wq", "encoder_l1_self_bq"}
    assert tensors["Wemb"].tolist() == [[0.5, 1], [1.5, 2], [2.5, -3]]
    assert tensors["encoder_l1_self_Wq"].tolist() == [[0.25, 0.75, 1.25], [0.5, 1, 1.5]]
    assert names.marian_shape("encoder_l1_self_Wq", tensors["encoder_l1_self_Wq"]).shape == (3, 2)


@pytest.mark.parametrize("cut", [0, 7, 16, 40, 200, -1])
def test_cut_bin_is_refused(tmp_path, cut):
    (tmp_path / "m.bin").write_bytes(binary(ITEMS)[:cut])
    with pytest.raises(UserError, match="cut short"):
        marian_bin.read(tmp_path / "m.bin")


@pytest.mark.parametrize(
    "data, said",
    [
        (b"PK\x03\x04" + bytes(60), "no Marian model"),
        (binary([("W", 0x402, (1,), bytes(8)), ITEMS[-1]]), "float16"),
        (binary([("W", 0x5101, (1,), bytes(8)), ITEMS[-1]]), "one kind of processor"),
        (binary([("W", 0x404, (9, 9), bytes(8)), ITEMS[-1]]), "damaged"),
        (binary(ITEMS[:1]), "special:model.yml"),
    ],
)
def test_other_bins_are_refused(tmp_path, data, said):
    (tmp_path / "m.bin").write_bytes(data)
    with pytest.raises(UserError, match=said):
        marian_bin.read(tmp_path / "m.bin")


def test_npz_back_and_forth_and_refusals(tmp_path):
    marian_npz.write(tmp_path / "m.npz", "type: x", {"a": np.ones((2, 3))})
    text, tensors = marian_npz.read(tmp_path / "m.npz")
    assert text == "type: x" and tensors["a"].dtype == np.float32 and tensors["a"].shape == (2, 3)
    whole = (tmp_path / "m.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:100])
    np.savez(tmp_path / "code.npz", a=np.array([{}], object))
    for file, said in (("cut.npz", "cut short"), ("code.npz", "run code")):
        with pytest.raises(UserError, match=said):
            marian_npz.read(tmp_path / file)


def test_words_of_a_yml_stay_words(tmp_path):
    (tmp_path / "vocab.yml").write_text(
        '</s>: 0\n<unk>: 1\non: 2\nno: 3\nnull: 4\n1_0: 5\n",": 6\n', encoding="utf-8"
    )
    words = vocabulary.read(tmp_path / "vocab.yml").words
    assert list(words) == ["</s>", "<unk>", "on", "no", "null", "1_0", ","]
    assert vocabulary.fairseq_order(words) == [-1, -1, 0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "text, said",
    [
        ("a: 0\nb: 2\n", "not 0 to 1"),
        ("a: x\n", "numbers"),
        ("a: [", "YAML"),
        ("a: 0\n", "no </s>"),
        ("!!python/object/apply:os.system [true]", "YAML"),
    ],
)
def test_other_ymls_are_refused(tmp_path, text, said):
    (tmp_path / "vocab.yml").write_text(text)
    with pytest.raises(UserError, match=said):
        vocabulary.read(tmp_path / "vocab.yml")


def test_white_space_in_a_word_survives_fairseq():
    from pathlib import Path

    text = vocabulary.dictionary(vocabulary.Vocabulary(["</s>", "a\u2028b"], [1, 7], "", Path("x")))
    assert text == "a<U+2028>b 7\n"


def test_marian_options():
    ours = options.from_marian(CONFIG, "m")
    assert (
        ours["ssru"]
        and ours["decoder_layers"] == 3
        and ours["share_all_embeddings"]
        and ours["scale_embedding"]
    )
    assert (
        options.from_marian({**CONFIG, "transformer-ffn-activation": "gelu"}, "m")["activation_fn"]
        == "gelu_sigmoid"
    )


@pytest.mark.parametrize(
    "change, said",
    [
        ({"type": "s2s"}, "recurrent network"),
        ({"transformer-decoder-autoreg": "average-attention"}, "average attention"),
        ({"dec-cell": "gru"}, "'gru'"),
        ({"lemma-dim-emb": "16"}, "factored"),
        ({"transformer-tied-layers": ["1", "1"]}, "share"),
        (
            {
                "transformer-preprocess": "n",
                "transformer-postprocess": "da",
                "transformer-postprocess-top": "n",
            },
            "pre-norm",
        ),
        ({"transformer-heads": "3"}, "3 heads"),
        ({"transformer-ffn-activation": "maxout"}, "maxout"),
        ({"dim-vocabs": ["6"]}, "dim-vocabs"),
        ({"transformer-ffn-depth": "3"}, "3 layers"),
        ({"dim-emb": "x"}, "damaged"),
    ],
)
def test_what_we_cannot_build_is_named(change, said):
    with pytest.raises(UserError, match=said):
        options.from_marian({**CONFIG, **change}, "m")


def test_names_go_back():
    for theirs in (
        "encoder_l2_self_Wq",
        "decoder_l1_context_bo",
        "decoder_l1_rnn_Wf",
        "encoder_l1_ffn_W2",
        "decoder_l3_ffn_ffn_ln_bias",
    ):
        assert names.to_marian(names.from_marian(theirs)[0]) == theirs


class Runs:
    def __reduce__(self):
        return print, ("executed",)


def test_a_pickle_that_would_run_is_refused(tmp_path, capsys):
    torch.save(Runs(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="run code|cut short"):
        hf_folder._weights(tmp_path / "pytorch_model.bin")
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "change, said",
    [
        ({"model_type": "bart"}, "no MarianMTModel"),
        ({"normalize_before": True}, "normalize_before"),
        ({"activation_function": "mish"}, "mish"),
    ],
)
def test_other_hf_folders_are_refused(change, said, shared):
    config = json.loads((shared / "oracle/hf-marian/tiny/config.json").read_text())
    with pytest.raises(UserError, match=said):
        options.from_hf({**config, **change}, "folder")


def test_a_wrong_start_token_is_refused(shared):
    folder = shared / "oracle/hf-marian/tiny"
    words = vocabulary.read(folder / "vocab.json")
    assert hf_folder._start({"decoder_start_token_id": 119}, words, folder) == "pad"
    with pytest.raises(UserError, match="starts with"):
        hf_folder._start({"decoder_start_token_id": 5}, words, folder)


@pytest.mark.parametrize("model", ["opus", "ssru", "untied"])
def test_marians_own_scores(shared, model):
    """What was read scores Marian's translations as Marian does."""
    folder = shared / "oracle/marian"
    source = marian.read(folder / model / "model.npz")
    number = {word: i for i, word in enumerate(source.vocabularies[0].words)}
    reference = Reference(source.options, source.tensors)
    lines = (folder / "input.en").read_text(encoding="utf-8").split("\n")
    for entry in (folder / model / "beam1.txt").read_text(encoding="utf-8").splitlines()[::12]:
        line, text, _, score = entry.split(" ||| ")
        inputs = torch.tensor(
            [number.get(w, number["<unk>"]) for w in lines[int(line)].split()] + [number["</s>"]]
        )
        cut = len(text.split()) >= 3 * len(inputs)
        outputs = torch.tensor([number[w] for w in text.split()] + ([] if cut else [number["</s>"]]))
        found = reference.logits(inputs, outputs).log_softmax(-1)[range(len(outputs)), outputs].sum()
        assert abs(float(found) - float(score)) < 1e-3


def test_a_longer_list_of_words_is_cut_as_marian_does(shared, tmp_path):
    text = (shared / "oracle/marian/vocab.yml").read_text(encoding="utf-8")
    (tmp_path / "v.yml").write_text(text + "\nextraword: 2000\n", encoding="utf-8")
    source = marian.read(shared / "oracle/marian/opus/model.npz", [tmp_path / "v.yml"])
    assert len(source.vocabularies[0].words) == 2000 and "first 2,000" in source.notes[0]


def test_wrong_vocabulary_is_refused(shared, tmp_path):
    (tmp_path / "v.yml").write_text("</s>: 0\n<unk>: 1\na: 2\n")
    with pytest.raises(UserError, match="3 words and the model 2,000"):
        marian.read(shared / "oracle/marian/opus/model.npz", [tmp_path / "v.yml"])


def test_prenorm_is_refused_by_name(shared):
    with pytest.raises(UserError, match="pre-norm"):
        marian.read(shared / "oracle/marian/prenorm/model.npz")


def test_the_firefox_model(shared):
    source = marian.read(shared / "models/firefox-en-pt/model.enpt.intgemm.alphas.bin")
    assert source.options["ssru"] and len(source.vocabularies[1].words) == 32000
    assert all(path.name == "vocab.enpt.spm" for path in source.spm)


def test_yaml_lists():
    assert yaml_files.as_list("[]") == [] and yaml_files.as_list("a") == ["a"] and yaml_files.is_true("true")
