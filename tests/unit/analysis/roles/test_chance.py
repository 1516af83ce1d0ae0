"""What chance gives: exact tests, corrected for their number."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_headprune.analysis.roles.chance import holm, sign_test
from tests.reference import head_roles


def test_sign_test():
    gains = np.array([[1, 0.5, 0, 1e-9], [2, -1, 0, 0], [0.1, 0, 0, 0], [3, 1, 0, 0]])
    assert sign_test(gains).tolist() == pytest.approx([1 / 16, 1 / 2, 1, 1])
    assert sign_test(-gains).tolist() == pytest.approx([1, 7 / 8, 1, 1])


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm(p):
    assert holm(np.array(p)).tolist() == pytest.approx(head_roles.holm(p))


def test_heads_that_only_guess_are_hardly_ever_found():
    # 400 heads without any gain, tried together: at 5 %, one in twenty such studies may find one
    rng = np.random.default_rng(1)
    studies = [holm(sign_test(rng.choice([-1, 1], size=(60, 400)))).min() < 0.05 for _ in range(200)]
    assert np.mean(studies) < 0.07
    alone = np.mean(sign_test(rng.choice([-1, 1], size=(60, 400))) < 0.05)
    assert alone * 400 > 5  # uncorrected, several of the heads would pass
