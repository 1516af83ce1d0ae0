"""Files are written whole or not at all, whatever the disk does."""

import pytest
import torch

from fairseq_headprune.base import files
from fairseq_headprune.base.errors import CannotWrite
from fairseq_headprune.base.progress import Checkpoint, write_whole
from tests.helpers.full_disk import files_end_at


class Tally:
    def __init__(self, size):
        self.size = size

    def arrays(self):
        import numpy as np

        return {"x": np.random.default_rng(1).random(self.size)}


def save_checkpoint(path):
    Checkpoint(path, {}).save({"t": Tally(100_000)}, {}, now=True)


def save_tensors(path):
    with files.replacing(path) as temporary:
        torch.save({"x": torch.rand(100_000)}, temporary)


WRITERS = [
    lambda path: files.write_text(path, "new" * 100_000),
    lambda path: files.write_json(path, ["new"] * 100_000),
    lambda path: write_whole({path.with_name("small"): "new", path: "new" * 100_000}),
    save_checkpoint,
    save_tensors,
]


@pytest.mark.parametrize("write", WRITERS)
def test_a_full_disk_leaves_what_was_there(write, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with files_end_at(10_000), pytest.raises(CannotWrite, match=r"^cannot write \S+/file: ") as raised:
        write(path)
    assert "\n" not in str(raised.value)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["file"]
    write(path)
    assert path.read_bytes() != b"old"


def test_an_interrupted_write_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), files.replacing(tmp_path / "file") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_several_files_take_their_places_in_order(tmp_path, monkeypatch):
    places = []
    replace = files.os.replace
    monkeypatch.setattr(files.os, "replace", lambda a, b: (places.append(b.name), replace(a, b)))
    write_whole({tmp_path / name: name for name in ("a", "b", "heads.json")})
    assert places == ["a", "b", "heads.json"]


def test_other_errors_inside_stay_what_they_are(tmp_path):
    with pytest.raises(RuntimeError, match="shapes"), files.writing(tmp_path / "x"):
        raise RuntimeError("shapes do not fit")


def test_a_line_that_was_cut_is_said_once(tmp_path):
    with open(tmp_path / "log", "ab", buffering=0) as file:
        files.append(file, "a" * 60 + "\n")
        with files_end_at(100), pytest.raises(CannotWrite, match="cannot write .*/log: File too large"):
            files.append(file, "b" * 60 + "\n")
    assert (tmp_path / "log").read_text() == "a" * 60 + "\n" + "b" * 39
