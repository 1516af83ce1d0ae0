"""A disk that is full: files end at so many bytes, for Python's writes and for torch's."""

import resource
from contextlib import contextmanager


@contextmanager
def files_end_at(size: int):
    """Inside, a write beyond ``size`` bytes of a file fails (Python ignores the signal)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
