"""Layer-wise relevance propagation through a Transformer, head by head (paper, appendix A).

``head_relevance`` gives the relevance of every head at every generation step of a batch, ``normalise``
and ``average`` make the paper's head relevance of it. README.md explains the three rules.
"""

from fairseq_headprune.fairseq_adapter import prepare

prepare()

from fairseq_headprune.lrp.heads import Average, average, normalise  # noqa: E402
from fairseq_headprune.lrp.relevance import ATTENTION_MODES, RULES, Relevance, head_relevance  # noqa: E402

__all__ = [
    "ATTENTION_MODES",
    "RULES",
    "Average",
    "Relevance",
    "average",
    "head_relevance",
    "normalise",
]
