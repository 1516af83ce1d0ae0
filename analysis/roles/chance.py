"""What chance gives when many heads are held against many relations."""

import numpy as np
from scipy.special import bdtrc

SAME = 1e-6
"""Parts of votes are sums of thirds and the like: a difference up to this is none."""


def sign_test(differences: np.ndarray) -> np.ndarray:
    """One-sided sign test over sentences, ``[heads]``: how likely at least so many of them prefer the head,
    if those that differ at all were as likely to prefer the other side.

    ``differences`` ``[sentences (or groups of them), heads]``: what the head found less what the other did.
    Exact for any number of sentences; words of one sentence, which depend on each other, count once.
    """
    better, worse = (differences > SAME).sum(axis=0), (differences < -SAME).sum(axis=0)
    return bdtrc(better - 1.0, better + worse, 0.5)


def holm(p: np.ndarray) -> np.ndarray:
    """p-values adjusted for having looked at all of them (Holm 1979): under 0.05, a claim made of every such
    one is wrong anywhere with a chance of 5 % at most. ``[tests]``"""
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted
