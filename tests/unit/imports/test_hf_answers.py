"""A Hugging Face MarianMTModel with that engine's answers.

The stored answers were computed with tables of random numbers in place of the sines, and a folder does not
hold these tables (MarianMTModel computes the sines anew). So they are found first: 36 encoder outputs of
32 numbers determine the 15 rows of the encoder's table more than twice over, 30 rows of logits the 12 of the
decoder's. That a table explains all of them within float32 checks everything else, and our model with
that table must then give the logits.
"""

import numpy as np
import pytest
import torch

from fairseq_headprune.imports import hf_folder, names
from tests.helpers.imported import fairseq_ids, open_source
from tests.reference.hf_marian import HFMarian, sines

WIDTH = 32


@pytest.fixture(scope="module")
def place(shared):
    return shared / "oracle/hf-marian/tiny"


@pytest.fixture(scope="module")
def expected(place):
    with np.load(place / "expected.npz") as file:
        return {name: torch.from_numpy(file[name]).squeeze(0) for name in file.files}


def solve(answers, wanted, rows):
    """The table ``[rows, WIDTH]`` with ``answers(table) == wanted``, by Levenberg and Marquardt's method."""

    def residual(x):
        return answers(x.view(rows, WIDTH)) - wanted

    x, damping = torch.zeros(rows * WIDTH, dtype=torch.float64), 1e-2
    now = residual(x)
    for _ in range(30):
        jacobian = torch.autograd.functional.jacobian(residual, x, vectorize=True)
        square = jacobian.T @ jacobian
        step = torch.linalg.solve(square + damping * torch.eye(len(x)), -(jacobian.T @ now))
        new = residual(x + step)
        if new.square().sum() < now.square().sum():
            x, now, damping = x + step, new, damping / 5
        else:
            damping *= 20
        if now.abs().max() < 2e-6:
            break
    return x.view(rows, WIDTH), float(now.abs().max())


@pytest.fixture(scope="module")
def tables(place, expected):
    """The tables of positions that the answers were computed with."""
    sources = [expected[f"source_{i}"] for i in range(4)]
    targets = [expected[f"target_{i}"] for i in range(4)]
    encoded = [expected[f"encoder_{i}"].double() for i in range(4)]
    model = HFMarian(place)

    def encoder(table):
        model.tables = {"encoder": table}
        return torch.cat([model.encode(s).view(-1) for s in sources])

    def decoder(table):
        model.tables = {"decoder": table}
        return torch.cat([model.logits(*pair).view(-1) for pair in zip(sources, targets, encoded)])

    found, error = {}, {}
    found["encoder"], error["encoder"] = solve(encoder, torch.cat([e.view(-1) for e in encoded]), 15)
    logits = torch.cat([expected[f"logits_{i}"].double().view(-1) for i in range(4)])
    found["decoder"], error["decoder"] = solve(decoder, logits, 12)
    assert max(error.values()) < 2e-6
    return found


def logits_of(model, words, source, target):
    """``[len(target), words]`` of our model, in the order of the folder's ids."""
    ids = fairseq_ids(words)
    prev = torch.cat([torch.tensor([2]), ids[target[:-1]]])
    with torch.no_grad():
        out = model(ids[source][None], torch.tensor([len(source)]), prev[None])[0][0]
    return out[:, ids]


def test_the_answers_are_of_other_positions(tables):
    """Why the folder alone cannot give them."""
    assert (tables["encoder"] - sines(15, WIDTH)).abs().max() > 0.5
    assert abs(float(tables["encoder"].std()) - 0.1) < 0.02


def test_logits_are_those_of_the_engine(place, expected, tables, tmp_path):
    source = hf_folder.read(place)
    source.options["learned_positions"] = True
    for name, stack in ((names.ENCODER_POSITIONS, "encoder"), (names.DECODER_POSITIONS, "decoder")):
        rows = torch.zeros(64, WIDTH)
        rows[: len(tables[stack])] = tables[stack]
        source.tensors[name] = rows.numpy()
    model, _ = open_source(source, tmp_path / "model")
    words = source.vocabularies[1].words
    for i in range(4):
        found = logits_of(model, words, expected[f"source_{i}"], expected[f"target_{i}"])
        torch.testing.assert_close(found, expected[f"logits_{i}"], atol=1e-4, rtol=0)


def test_logits_are_those_of_the_slow_reference(place, expected, tmp_path):
    """With the sines that MarianMTModel has when it loads the folder."""
    source = hf_folder.read(place)
    model, _ = open_source(source, tmp_path / "model")
    reference, words = HFMarian(place), source.vocabularies[1].words
    for i in range(4):
        pair = expected[f"source_{i}"], expected[f"target_{i}"]
        found, wanted = logits_of(model, words, *pair).double(), reference.logits(*pair)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
