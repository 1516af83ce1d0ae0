"""Keys written once and masked by path, against a cache that each hypothesis has for itself."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_headprune.nn.beam_cache import BeamCache

HEADS, WIDTH = (2, 0, 1), 3


class OwnPasts:
    """The obvious cache: per row, a list of the (key, value) pairs of its own past."""

    def __init__(self, rows):
        self.rows = [[] for _ in range(rows)]

    def step(self, keys, values, padded):
        for row, past in enumerate(self.rows):
            past.append((keys[row], values[row], bool(padded[row])))

    def reorder(self, order):
        self.rows = [list(self.rows[r]) for r in order.tolist()]


def attended(cache, layer, keys, values, row):
    """What a row sees of the shared cache, as lists of keys and values, oldest first."""
    sentence, beam = divmod(row, cache.beam)
    mask = cache.mask()
    seen = range(values.size(2))
    if mask is not None:
        assert set(mask.unique().tolist()) <= {0.0, float("-inf")}
        seen = [i for i in seen if mask[sentence, 0, beam, i] == 0]
    return [keys[sentence, ..., i] for i in seen], [values[sentence, :, i] for i in seen]


@settings(max_examples=25, deadline=None)
@given(data=st.data(), beam=st.integers(1, 4), sentences=st.integers(1, 3))
def test_every_hypothesis_sees_its_own_past(data, beam, sentences):
    torch.manual_seed(data.draw(st.integers(0, 99)))
    cache = BeamCache(sentences, beam, HEADS, WIDTH, like=torch.zeros(1))
    reference = [OwnPasts(sentences * beam) for _ in HEADS]
    for _ in range(data.draw(st.integers(1, 20))):
        rows = cache.sentences * beam
        padded = torch.rand(rows) < 0.1
        cache.begin_step(padded if padded.any() else None)
        for layer, heads in enumerate(HEADS):
            k, v = torch.randn(2, rows, heads, WIDTH)
            shape = (cache.sentences, beam, heads, WIDTH)
            keys, values = cache.append(layer, k.view(shape), v.view(shape))
            reference[layer].step(k, v, padded)
            for row in range(rows):
                seen = attended(cache, layer, keys, values, row)
                past = [(a, b) for a, b, p in reference[layer].rows[row] if not p]
                assert len(seen[0]) == len(past)
                assert all(torch.equal(a, b) for a, (b, _) in zip(seen[0], past))
                assert all(torch.equal(a, b) for a, (_, b) in zip(seen[1], past))
        keep = [s for s in range(cache.sentences) if data.draw(st.integers(0, 9)) > 0]
        if not keep:
            break
        order = torch.cat([s * beam + torch.randint(beam, (beam,)) for s in keep])
        kept = cache.reorder(order)
        assert (keep if kept is None else kept.tolist()) == keep
        for pasts in reference:
            pasts.reorder(order)


def test_reordering_does_not_move_keys():
    cache = BeamCache(2, 3, (1,), 2, like=torch.zeros(1))
    cache.begin_step()
    cache.append(0, torch.ones(2, 3, 1, 2), torch.ones(2, 3, 1, 2))
    place = cache.keys[0].data_ptr()
    assert cache.reorder(torch.tensor([2, 2, 0, 3, 3, 4])) is None
    assert cache.keys[0].data_ptr() == place


def test_hypotheses_stay_in_their_sentence():
    cache = BeamCache(2, 2, (1,), 2, like=torch.zeros(1))
    cache.begin_step()
    with pytest.raises(ValueError, match="another"):
        cache.reorder(torch.tensor([0, 2, 2, 3]))
