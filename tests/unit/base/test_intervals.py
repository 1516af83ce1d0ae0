"""Bootstrap intervals: coverage, and groups of sentences standing for sentences."""

import numpy as np

from fairseq_headprune.base.intervals import Bootstrap, group


def test_first_sentences_have_a_group_each_and_later_ones_are_scattered():
    assert [group(i, 10) for i in range(10)] == list(range(10))
    later = np.bincount([group(i, 10) for i in range(10, 10_010)], minlength=10)
    assert later.min() > 900 and later.max() < 1100
    assert [group(i) for i in range(5000)] == [group(i) for i in range(5000)]


def test_interval_is_what_resampling_sentence_by_sentence_gives():
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 20, 300).astype(float)
    sums = rng.binomial(counts.astype(int), 0.3).astype(float)
    draws = [rng.integers(0, 300, 300) for _ in range(4000)]
    slow = np.percentile([sums[d].sum() / counts[d].sum() for d in draws], [2.5, 97.5])
    fast = Bootstrap(300, 4000, seed=2).interval(sums, counts)
    np.testing.assert_allclose(fast, slow, atol=0.003)


def test_coverage_of_grouped_sentences():
    # 400 data sets of 3,000 sentences whose tokens agree with each other, in 100 groups.
    rng = np.random.default_rng(6)
    covered = 0
    place = np.array([group(i, 100) for i in range(3000)])
    bootstrap = Bootstrap(100, 400)
    for _ in range(400):
        chance = rng.beta(3, 7, 3000)  # of a sentence; 0.3 on average
        counts = rng.integers(1, 12, 3000)
        sums = rng.binomial(counts, chance)
        low, high = bootstrap.interval(np.bincount(place, sums, 100), np.bincount(place, counts, 100))
        covered += low <= 0.3 <= high
    assert 0.90 <= covered / 400 <= 0.985


def test_shapes_and_nothing_counted():
    sums = np.arange(24.0).reshape(4, 2, 3)
    counts = np.full((4, 1), 30.0)
    counts_of_columns = np.broadcast_to(counts[:, :, None], (4, 2, 1)).copy()
    counts_of_columns[:, 1] = 0
    low, high = Bootstrap(4, 50).interval(sums, counts_of_columns)
    assert low.shape == high.shape == (2, 3)
    assert np.isnan(low[1]).all() and (low[0] <= high[0]).all()


def test_rare_counts_leave_out_resamples_that_count_nothing():
    sums, counts = np.zeros(50), np.zeros(50)
    sums[3] = counts[3] = counts[7] = 1
    low, high = Bootstrap(50, 500).interval(sums, counts)
    assert (low, high) == (0, 1)


def test_one_sentence():
    low, high = Bootstrap(1, 10).interval(np.ones((1, 1)), np.full((1, 1), 2.0))
    assert low == high == 0.5
