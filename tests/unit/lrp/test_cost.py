"""What relevance is said to cost, beside what it does."""

from functools import partial

import pytest
import torch

from fairseq_headprune.lrp import RULES, head_relevance
from fairseq_headprune.lrp.cost import Forecast, memory, operations
from fairseq_headprune.lrp.network import Network
from tests.helpers.small_models import batch, small_transformer


def slow_operations(source, steps, channels=16, ffn=24, layers=2):
    """Counted weight by weight for a model of this size: every start, every token, every matrix."""
    count = 0
    for _ in range(steps):
        for _ in range(layers):
            count += source * 4 * channels**2 + 3 * source * source * channels  # enc_self
            count += source * 2 * channels * ffn
            count += steps * 4 * channels**2 + 3 * steps * steps * channels  # dec_self
            count += steps * 2 * channels**2 + source * 2 * channels**2 + 3 * steps * source * channels
            count += steps * 2 * channels * ffn
    return count


@pytest.mark.parametrize("source, steps", [(1, 1), (5, 9), (9, 5)])
def test_operations(source, steps):
    network = Network.of(small_transformer(), torch.float32)
    assert operations(network, source, steps) == slow_operations(source, steps)


def peak(work) -> int:
    """Bytes that tensors made by ``work`` took at most."""
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profile:
        work()
    now = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


@pytest.mark.parametrize("rule", RULES)
def test_memory_is_bounded_by_what_is_said(rule):
    model = small_transformer(encoder_embed_dim=64, decoder_embed_dim=64)
    network = Network.of(model, torch.float32)
    for lengths in ((5, 5), (60, 12), (12, 60), (60, 60)):
        src, sizes, prev, _ = batch([lengths])
        taken = peak(partial(head_relevance, model, src, sizes, prev, rule=rule))
        assert taken < memory(network, *lengths) < 3 * taken + 2**25 + 2**22


def test_a_forecast_grows_with_the_work():
    forecast = Forecast(small_transformer(), rule="z-plus")
    one, two, long = (forecast.seconds(x) for x in ([(9, 9)], [(9, 9)] * 2, [(900, 900)]))
    assert 0 < one < long and two == pytest.approx(2 * one)
    assert forecast.memory(9, 9) < forecast.memory(90, 90)


def test_progress_counts_every_step_once():
    model = small_transformer()
    src, lengths, prev, _ = batch([(5, 4), (3, 6), (7, 1)])
    for chunk_size in (None, 400):
        seen = []
        head_relevance(model, src, lengths, prev, chunk_size=chunk_size, progress=seen.append)
        assert sum(seen) == 11 and all(seen)
    assert len(seen) > 3
