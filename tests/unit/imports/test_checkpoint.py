"""The checkpoint that is written: words in fairseq's order, tied weights tied, the folder whole or absent."""

import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.imports import checkpoint, folder, marian, vocabulary
from tests.reference.marian import Reference


@pytest.mark.parametrize("model", ["opus", "ssru", "untied"])
def test_marians_own_scores_in_fairseqs_order(shared, model):
    place = shared / "oracle/marian"
    source = marian.read(place / model / "model.npz")
    words = source.vocabularies[0].words
    number = {words[old]: new for new, old in enumerate(vocabulary.fairseq_order(words)) if old >= 0}
    weights = {k: v for k, v in checkpoint.weights(source).items() if not k.endswith("version")}
    reference = Reference(source.options, weights)
    lines = (place / "input.en").read_text(encoding="utf-8").split("\n")
    for entry in (place / model / "beam1.txt").read_text(encoding="utf-8").splitlines()[::20]:
        line, text, _, score = entry.split(" ||| ")
        inputs = torch.tensor([number.get(w, 3) for w in lines[int(line)].split()] + [2])
        cut = len(text.split()) >= 3 * len(inputs)
        outputs = torch.tensor([number[w] for w in text.split()] + ([] if cut else [2]))
        found = reference.logits(inputs, outputs).log_softmax(-1)[range(len(outputs)), outputs].sum()
        assert abs(float(found) - float(score)) < 1e-3


@pytest.mark.parametrize("model, tied", [("opus", 3), ("untied", 2)])
def test_tied_weights_are_one_tensor(shared, model, tied):
    weights = checkpoint.weights(marian.read(shared / "oracle/marian" / model / "model.npz"))
    tables = [
        weights[n]
        for n in (
            "encoder.embed_tokens.weight",
            "decoder.embed_tokens.weight",
            "decoder.output_projection.weight",
        )
    ]
    assert len({id(t) for t in tables}) == 4 - tied


def test_a_folder_is_whole_or_absent(tmp_path):
    def fail(place):
        (place / "half").write_text("x")
        raise UserError("no")

    with pytest.raises(UserError):
        folder.write_whole(tmp_path / "out", fail)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("x")
    with pytest.raises(UserError, match="exists already"):
        folder.write_whole(tmp_path / "out", lambda place: None)
