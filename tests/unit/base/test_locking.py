"""One run at a time in a folder."""

import os

import pytest

from fairseq_headprune.base import locking
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.locking import FolderLock


def test_the_second_run_is_refused_and_the_third_is_not(tmp_path):
    with FolderLock(tmp_path), pytest.raises(UserError, match="another run is writing to"):
        FolderLock(tmp_path)
    assert not list(tmp_path.iterdir())
    FolderLock(tmp_path).close()  # as a kill does: the file stays
    with FolderLock(tmp_path):
        assert os.listdir(tmp_path) == [".lock"]


def test_a_file_that_was_taken_away_meanwhile_is_no_lock(tmp_path, monkeypatch):
    """The run before ends between our opening of its file and our locking of it."""
    first, flock = FolderLock(tmp_path), locking.fcntl.flock

    def late(file, how):
        first.release()
        monkeypatch.undo()
        flock(file, how)

    monkeypatch.setattr(locking.fcntl, "flock", late)
    with FolderLock(tmp_path), pytest.raises(UserError):
        FolderLock(tmp_path)


def test_a_file_system_without_locks_is_no_hindrance(tmp_path, monkeypatch):
    def without(file, how):
        raise OSError(locking.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locking.fcntl, "flock", without)
    FolderLock(tmp_path).release()
