"""fairseq-headprune: attention-head gates, removal, relevance and analysis for fairseq Transformers.

Importing the package loads neither fairseq nor torch. ``--user-dir`` registers the models, criterions and
tasks, since fairseq imports ``models/`` and ``tasks/``; a program of your own calls `register`.
"""

from fairseq_headprune.fairseq_adapter.user_dir import UserDirPath

__version__ = "0.2.0"

__path__ = UserDirPath(__path__)


def register():
    """Repair what the installed torch and fairseq get wrong for us; register models, criterions and tasks.

    Safe to call twice. Raises ImportError where fairseq cannot be imported.
    """
    from fairseq_headprune import criterions, models, tasks  # noqa: F401
