"""One run at a time writes into a folder: a lock that ends with its process, however that ends."""

import errno
import fcntl
import os
import weakref
from pathlib import Path

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.files import writing

NAME = ".lock"

# A worker that loads data outlives a killed run by seconds; it must not hold the run's lock so long.
_locks: "weakref.WeakSet" = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: [lock.close() for lock in list(_locks)])


class FolderLock:
    """The lock of a folder, which is made if need be. UserError when another run holds it.

    As a context, it takes its file ``.lock`` away at the end.
    """

    def __init__(self, folder):
        self.path = Path(folder) / NAME
        self._file = None
        with writing(f"into {folder}"):
            self._take(folder)
        _locks.add(self)

    def _take(self, folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        while self._file is None:
            file = open(self.path, "w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise UserError(
                    f"another run is writing to {folder}: wait for it or give another directory"
                ) from None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                    file.close()
                    raise
                # a file system without locks: nobody can hold one
            if _same(file, self.path):
                self._file = file
            else:  # the run that held it has just taken the file away
                file.close()

    def release(self) -> None:
        """Take the file away, while it is held: what another run has locked since is not ours."""
        if self._file is not None:
            self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the lock and leave its file, as the end of the process does."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.release()


def _same(file, path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
