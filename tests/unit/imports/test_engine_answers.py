"""Marian's own translations: our model scores each as Marian does, and finds it by greedy search."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_headprune.imports import marian
from tests.helpers.imported import batches, fairseq_ids, open_source

EOS, UNK = 2, 3
LIMIT = 3  # Marian stops at so many times the source's tokens
TIE = 1e-4


@pytest.fixture(scope="module", params=["opus", "ssru", "untied"])
def answers(request, shared, tmp_path_factory):
    """``(model, task, pairs, scores)`` of one model and all lines of its ``beam1.txt``."""
    folder = shared / "oracle/marian"
    source = marian.read(folder / request.param / "model.npz")
    model, task = open_source(source, tmp_path_factory.mktemp("answers") / "model")
    words = source.vocabularies[0].words
    ids = dict(zip(words, fairseq_ids(words).tolist()))
    lines = (folder / "input.en").read_text(encoding="utf-8").split("\n")
    pairs, scores = [], []
    for entry in (folder / request.param / "beam1.txt").read_text(encoding="utf-8").splitlines():
        line, text, _, score = entry.split(" ||| ")
        inputs = torch.tensor([ids.get(w, UNK) for w in lines[int(line)].split()] + [EOS])
        cut = len(text.split()) >= LIMIT * len(inputs)
        pairs.append((inputs, torch.tensor([ids[w] for w in text.split()] + ([] if cut else [EOS]))))
        scores.append(float(score))
    assert len(pairs) == 100
    return model, task, pairs, scores


def log_probabilities(model, src, lengths, prev):
    """``[sentences, steps, words]``, in double."""
    with torch.no_grad():
        return model(src, lengths, prev)[0].double().log_softmax(-1)


def test_every_translation_is_scored_as_by_marian(answers):
    model, _, pairs, scores = answers
    for chosen, src, lengths, prev, target in batches(pairs):
        found = log_probabilities(model, src, lengths, prev).gather(2, target[..., None])[..., 0]
        found = found.masked_fill(target.eq(1), 0).sum(1)
        wanted = torch.tensor([scores[i] for i in chosen], dtype=torch.float64)
        torch.testing.assert_close(found, wanted, atol=1e-3, rtol=0)


def test_greedy_search_finds_every_translation(answers):
    """But for ties: the two words have the same probability within rounding."""
    model, task, pairs, _ = answers
    search = SequenceGenerator([model], task.target_dictionary, beam_size=1, max_len_a=LIMIT, max_len_b=10)
    same = 0
    for _, src, lengths, _, target in batches(pairs):
        sample = {"net_input": {"src_tokens": src, "src_lengths": lengths}}
        with torch.no_grad():
            found = search.generate([model], sample)
        for row, hypotheses in enumerate(found):
            theirs = target[row][target[row].ne(1)]
            ours = hypotheses[0]["tokens"][: len(theirs)]
            if torch.equal(ours, theirs):
                same += 1
                continue
            step = int(ours.ne(theirs[: len(ours)]).nonzero()[0])
            prev = torch.cat([torch.tensor([EOS]), theirs[:step]])[None]
            at = log_probabilities(model, src[row : row + 1], lengths[row : row + 1], prev)[0, -1]
            assert abs(float(at[ours[step]] - at[theirs[step]])) < TIE, (row, step)
    assert same > 95
