"""Files that would run something when unpickled, and files that are nothing: told apart, and none is run."""

import io
import os
import pickle
import subprocess
import zipfile

import pytest
import torch

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.checkpoints import reading
from tests.helpers import checkpoint_files
from tests.helpers.our_models import stock


def old_format(content):
    """The main pickle among those that torch wrote before it had zip files."""
    before = [
        0x1950A86A20F9469CFC6C,
        1001,
        {"little_endian": True, "protocol_version": 1001, "type_sizes": {}},
    ]
    return b"".join(pickle.dumps(value, 2) for value in before) + content + pickle.dumps([], 2)


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in (("data.pkl", content), ("version", "3\n"), ("byteorder", "little")):
            archive.writestr(f"archive/{name}", data)
    return file.getvalue()


class Calls:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def harmful(ran):
    """Name of what would be called -> the pickle; each would make the file ``ran``."""
    line = f"open({str(ran)!r}, 'w')"
    calls = {
        "posix.system": Calls(os.system, f"touch {ran}"),
        "exec": Calls(exec, line),
        "eval": Calls(eval, line),
        "io.open": Calls(open, str(ran), "w"),
        "check_output": Calls(subprocess.check_output, ["touch", str(ran)]),
        "torch.serialization.load": Calls(torch.load, str(ran)),
    }
    for name, call in calls.items():
        for protocol in (0, 2, 4, 5):
            yield name, pickle.dumps({"model": {}, "cfg": call}, protocol)
    touch = f"'touch {ran}'".encode()
    yield "os.system", b"(S" + touch + b"\nios\nsystem\n."
    yield "os.system", b"(cos\nsystem\nS" + touch + b"\no."
    yield "os.system", b"\x80\x02cos\nsystem\nq\x00)\x81."
    yield "os.system", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."
    yield "torch.os.system", b"ctorch\nos.system\n(S" + touch + b"\ntR."
    yield "extension 1", b"\x82\x01."


@pytest.mark.parametrize("wrap", [bytes, old_format, zipped])
def test_a_file_that_would_execute_is_said_to_hold_code(tmp_path, wrap):
    for number, (name, content) in enumerate(harmful(tmp_path / "ran")):
        path = tmp_path / f"{number}.pt"
        path.write_bytes(wrap(content))
        with pytest.raises(UserError, match=f"{name}', code that was not run") as raised:
            reading.read_file(path)
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "ran").exists()


NOTHING = {
    "empty": b"",
    "a dictionary": b"hello 1\nworld 2\n",
    "a page": b"<html>",
    "cut": b"\x80\x02}q\x00X\x05",
    "cut in a number": b"\x80\x02]q\x00(J",
    "no stack": b".",
    "no memo": b"h\x05.",
    "deep": b"(" * 100_000 + b".",
    "unknown instruction": b"\x80\x05\x97.",
    "a frame too long": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f.",
    "items of a number": b"K\x01(K\x02K\x03u.",
    "a call of a text": b"S'os'\n(tR.",
    "a zip file that is none": b"PK\x03\x04" * 9,
    "compressed": b"\x1f\x8b\x08\x00",
}


@pytest.mark.parametrize("wrap", [bytes, old_format, zipped])
@pytest.mark.parametrize("content", NOTHING.values(), ids=NOTHING)
def test_a_file_that_is_nothing_is_no_checkpoint(tmp_path, content, wrap):
    (tmp_path / "x.pt").write_bytes(wrap(content))
    with pytest.raises(UserError, match="truncated or no fairseq file") as raised:
        reading.read_file(tmp_path / "x.pt")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("old", [False, True])
def test_a_whole_checkpoint_that_is_cut_holds_no_code(tmp_path, old):
    path = checkpoint_files.write(stock(), tmp_path / "stock.pt", "transformer")
    if old:
        torch.save(torch.load(path, weights_only=True), path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    for part in (0.01, 0.2, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(part * len(whole))])
        with pytest.raises(UserError, match="truncated"):
            reading.read_file(path)


def test_memory_that_is_too_small_is_no_damage(tmp_path, monkeypatch):
    def too_large(*args, **options):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes")

    path = checkpoint_files.write(stock(), tmp_path / "stock.pt", "transformer")
    monkeypatch.setattr(torch, "load", too_large)
    with pytest.raises(MemoryError):
        reading.read_file(path)


def test_weights_that_are_none_are_named(tmp_path):
    path = checkpoint_files.write(stock(), tmp_path / "stock.pt", "transformer")
    state = torch.load(path, weights_only=True)
    state["model"]["encoder.layers.0.fc1.weight"] = "x"
    torch.save(state, path)
    with pytest.raises(UserError, match=r"encoder.layers.0.fc1.weight is no tensor"):
        reading.load_checkpoint(path)
