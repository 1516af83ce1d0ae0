"""Layer-wise relevance propagation through a Transformer, head by head (paper, appendix A).

``head_relevance`` gives the relevance of every head at every generation step of a batch, ``normalise``
and ``average`` make the paper's head relevance of it. README.md explains the rules.
"""

from fairseq_headprune.fairseq_adapter import prepare

prepare()

from fairseq_headprune.lrp.heads import Average, average, normalise  # noqa: E402
from fairseq_headprune.lrp.relevance import (  # noqa: E402
    ATTENTION_MODES,
    RULES,
    Relevance,
    check_stabiliser,
    head_relevance,
)

__all__ = [
    "ATTENTION_MODES",
    "RULES",
    "Average",
    "Relevance",
    "average",
    "check_stabiliser",
    "head_relevance",
    "normalise",
]
