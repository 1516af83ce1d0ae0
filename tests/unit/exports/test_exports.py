"""Pruned models for other programs: what is written, read again, computes the same."""

import json

import numpy as np
import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading, removal
from fairseq_headprune.commands import main
from fairseq_headprune.exports import hf_folder as hf_export
from fairseq_headprune.exports import marian as marian_export
from fairseq_headprune.exports import trained
from fairseq_headprune.imports import hf_folder, marian
from fairseq_headprune.units.layout import HeadLayout
from tests.helpers.imported import fairseq_ids, open_source
from tests.reference.hf_marian import HFMarian
from tests.reference.marian import Reference
from tests.unit.imports.test_known_reports import hugging_face

GONE = ((0, 3), (1,), (2,)), ((), (0, 1, 2)), ((0, 2), (3,))
"""Heads that stay, of 3 encoder and 2 decoder layers."""


def read(shared, name):
    if name == "hf":
        return hf_folder.read(shared / "oracle/hf-marian/tiny")
    return marian.read(shared / "oracle/marian" / name / "model.npz")


@pytest.fixture(scope="module")
def pruned(shared, tmp_path_factory):
    """name -> ``(folder of the imported model, checkpoint of some of its heads, source)``."""
    made = {}

    def make(name):
        if name not in made:
            source, place = read(shared, name), tmp_path_factory.mktemp("pruned")
            open_source(source, place / "model")
            state = reading.load_checkpoint(place / "model/model.pt")
            layout = HeadLayout(*GONE) if not source.options["ssru"] else HeadLayout(GONE[0], (), GONE[2])
            removal.save(removal.remove_heads(state, layout), place / "small.pt")
            made[name] = place / "model", place / "small.pt", source
        return made[name]

    return make


def pairs(words, seed=1):
    """Sentences of ids of ``words``, none special but ``</s>``; the same words for every call."""
    names = sorted(set(words) - {"<s>", "<pad>", "</s>", "<unk>"})
    number = {word: i for i, word in enumerate(words)}
    random = np.random.default_rng(seed)
    for length in (4, 9, 17):
        chosen = random.integers(len(names), size=(2, length))
        yield [torch.tensor([number[names[i]] for i in row] + [number["</s>"]]) for row in chosen]


def ours(path, folder, words):
    """Log probabilities ``[steps, len(words)]`` of the checkpoint for the sentences of `pairs`."""
    model, _, task = reading.load_model(path, str(folder))
    ids = fairseq_ids(words)
    for source, target in pairs(words):
        prev = torch.cat([torch.tensor([2]), ids[target[:-1]]])[None]
        with torch.no_grad():
            out = model(ids[source][None], torch.tensor([len(source)]), prev)[0][0]
        yield out.double().log_softmax(-1)[:, ids]


@pytest.mark.parametrize("name", ["hf", "opus", "untied"])
def test_a_hugging_face_folder_gives_the_same_logits(pruned, tmp_path, name):
    folder, small, source = pruned(name)
    out = tmp_path / "out"
    assert main(["export", "hf", folder, out, "--checkpoint", small]) == 0
    words = [w for w in source.vocabularies[0].words if w not in ("<s>", "<pad>")]
    vocab = json.loads((out / "vocab.json").read_text(encoding="utf-8"))
    again = [vocab[w] for w in words]
    tables = {}
    if name != "hf":  # Marian's sines are stored, where MarianMTModel reads them
        state = HFMarian(out).state
        tables = {s: state[f"model.{s}.embed_positions.weight"] for s in ("encoder", "decoder")}
    reference = HFMarian(out, tables)
    everything = source.vocabularies[0].words
    places = torch.tensor([list(everything).index(w) for w in words])
    for (inputs, outputs), wanted in zip(pairs(everything), ours(small, folder, everything)):
        theirs = [torch.tensor([vocab[everything[int(i)]] for i in ids]) for ids in (inputs, outputs)]
        found = reference.logits(*theirs).log_softmax(-1)[:, again]
        torch.testing.assert_close(found, wanted[:, places], atol=1e-5, rtol=1e-5)
    name = "model.encoder.layers.0.self_attn"
    assert not reference.state[f"{name}.q_proj.weight"][8:24].any()
    assert reference.state[f"{name}.out_proj.weight"][:, :8].any()
    assert main(["import", out, "--out", tmp_path / "again"]) == 0
    assert (tmp_path / "again/dict.pt.txt").is_file()  # the folder knows its languages
    torch.testing.assert_close(
        list(ours(tmp_path / "again/model.pt", tmp_path / "again", list(everything))),
        list(ours(small, folder, list(everything))),
        atol=1e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize("name", ["opus", "ssru", "untied"])
def test_a_marian_file_gives_the_same_logits(pruned, tmp_path, name):
    folder, small, source = pruned(name)
    assert main(["export", "marian", folder, tmp_path / "m.npz", "--checkpoint", small]) == 0
    again = marian.read(tmp_path / "m.npz")
    assert again.vocabularies[0].words == list(source.vocabularies[0].words)
    assert {k: again.options[k] for k in source.options} == source.options
    reference, words = Reference(again.options, again.tensors), again.vocabularies[0].words
    for (inputs, outputs), wanted in zip(pairs(words), ours(small, folder, words)):
        found = reference.logits(inputs, outputs).log_softmax(-1)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_separate_vocabularies_keep_theirs_and_agree_on_special_words(tmp_path):
    folder = hugging_face(tmp_path / "hf", share_encoder_decoder_embeddings=False)
    before = hf_folder.read(folder)
    open_source(before, tmp_path / "model")
    hf_export.write(trained.read(tmp_path / "model")[0], tmp_path / "out")
    again = hf_folder.read(tmp_path / "out")
    lists = [list(v.words) for v in again.vocabularies]
    assert [len(words) for words in lists] == [40, 53] and lists[0][:3] == lists[1][:3] == [
        "</s>",
        "<unk>",
        "<pad>",
    ]
    for old, new in zip(before.vocabularies, again.vocabularies):
        assert sorted(old.words) == sorted(new.words)
    assert json.loads((tmp_path / "out/tokenizer_config.json").read_text())["separate_vocabs"]
    pair = torch.tensor([5, 9, 0]), torch.tensor([7, 51, 0])  # these folders have the same ids
    wanted = HFMarian(folder).logits(*pair)
    torch.testing.assert_close(HFMarian(tmp_path / "out").logits(*pair), wanted)


def test_another_reader_of_marian_files_scores_alike(pruned, tmp_path):
    """CTranslate2, which computes the sines of MarianMTModel in place of Marian's."""
    converters = pytest.importorskip("ctranslate2.converters")
    import ctranslate2

    folder, small, _ = pruned("opus")
    marian_export.write(trained.read(folder, small)[0], tmp_path / "m.npz")
    converter = converters.MarianConverter(str(tmp_path / "m.npz"), [str(tmp_path / "vocab.yml")] * 2)
    converter.convert(str(tmp_path / "ct2"))
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), inter_threads=1, intra_threads=1)
    again = marian.read(tmp_path / "m.npz")
    reference, words = Reference(again.options, again.tensors, exponent=16), again.vocabularies[0].words
    for inputs, outputs in pairs(words):
        texts = [[words[i] for i in ids[:-1]] for ids in (inputs, outputs)]
        found = torch.tensor(engine.score_batch([texts[0]], [texts[1]])[0].log_probs).double()
        wanted = reference.logits(inputs, outputs).log_softmax(-1).gather(1, outputs[:, None])[:, 0]
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["opus", "ssru", "untied"])
def test_a_marian_file_comes_back_as_it_was(pruned, shared, tmp_path, name):
    """Every array, bit for bit, under its own name, and no other."""
    folder, _, _ = pruned(name)
    marian_export.write(trained.read(folder)[0], tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as new, np.load(shared / "oracle/marian" / name / "model.npz") as old:
        assert set(new.files) == set(old.files)
        for key in set(old.files) - {"special:model.yml"}:
            np.testing.assert_array_equal(new[key], old[key])


def test_a_hugging_face_folder_comes_back_as_it_was(pruned, shared, tmp_path):
    folder, _, source = pruned("hf")
    hf_export.write(trained.read(folder)[0], tmp_path / "out")
    again = hf_folder.read(tmp_path / "out")
    assert again.options == source.options and again.vocabularies[0].words == source.vocabularies[0].words
    for name, array in source.tensors.items():
        np.testing.assert_array_equal(again.tensors[name], array)
    old = json.loads((shared / "oracle/hf-marian/tiny/config.json").read_text())
    new = json.loads((tmp_path / "out/config.json").read_text())
    same = {k for k in new if k in old and new[k] == old[k]}
    assert set(new) - same == {"max_position_embeddings"}


@pytest.mark.parametrize(
    "name, kind, change, said",
    [
        ("ssru", "hf", {}, "SSRUs"),
        ("hf", "marian", {}, "other positions"),
        ("opus", "hf", {"layernorm_embedding": True}, "normalised"),
        ("opus", "marian", {"activation_fn": "gelu"}, "gelu"),
        ("opus", "marian", {"decoder_start": "pad"}, "starts with zeros"),
        ("opus", "marian", {"decoder_attention_heads": 2}, "one number of heads"),
    ],
)
def test_what_the_other_program_cannot_compute_is_named(pruned, tmp_path, name, kind, change, said):
    source, _ = trained.read(pruned(name)[0])
    source.options.update(change)
    with pytest.raises(UserError, match=said):
        (hf_export if kind == "hf" else marian_export).write(source, tmp_path / "out.npz")
    assert not list(tmp_path.iterdir())


def test_other_forms_and_other_words_are_refused(pruned, tmp_path):
    folder, _, _ = pruned("opus")
    with pytest.raises(UserError, match="has 121 words and .* 2,002"):
        trained.read(folder, pruned("hf")[0] / "model.pt")
    state = reading.load_checkpoint(folder / "model.pt")
    state["cfg"]["model"]["position_encoding"] = "fairseq"
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(UserError, match="--position-encoding fairseq"):
        trained.read(folder, tmp_path / "other.pt")


def test_nothing_is_overwritten(pruned, tmp_path, capsys):
    folder, _, _ = pruned("opus")
    (tmp_path / "vocab.yml").write_text("mine")
    for words in (
        ["marian", folder, tmp_path / "m.npz"],
        ["hf", folder, tmp_path],
        ["marian", folder, "m.bin"],
    ):
        with pytest.raises(SystemExit) as caught:
            main(["export", *words])
        assert caught.value.code == 2 and capsys.readouterr().err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["vocab.yml"]
