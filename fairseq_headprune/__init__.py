"""fairseq-headprune: attention-head gates, removal, relevance and analysis for fairseq Transformers.

Importing the package (what ``--user-dir`` does) repairs what the installed torch and fairseq get
wrong for us and registers models, criterions and tasks.
"""

from fairseq_headprune.fairseq_adapter.log_setup import unchanged_logging

try:
    with unchanged_logging():
        import fairseq  # noqa: F401
except Exception as error:  # a fairseq that does not fit this Python fails in many ways
    raise ImportError(
        f"fairseq cannot be imported here ({type(error).__name__}: {str(error).splitlines()[0][:100]}); "
        "on Python 3.11 and later install ve-fairseq==0.12.3 instead of fairseq 0.12.2"
    ) from error

from fairseq_headprune.fairseq_adapter import repairs as compat

compat.apply()

import fairseq_headprune.criterions  # noqa: E402,F401  (fairseq does not import these by itself)
import fairseq_headprune.models  # noqa: E402,F401
import fairseq_headprune.tasks  # noqa: E402,F401

__version__ = "0.1.0"
