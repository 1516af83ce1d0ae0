"""``headprune import`` and ``headprune translate`` from file to text, and what they refuse."""

import io
import sys

import pytest

from fairseq_headprune.commands import main

LINES = 12


def translated(monkeypatch, capfdbinary, text, *args):
    """Standard output of translate for this standard input, as lines."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    capfdbinary.readouterr()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(open(1, "wb", closefd=False)))
    assert main(["translate", *args]) == 0
    return capfdbinary.readouterr().out.decode("utf-8").split("\n")[:-1]


def test_firefox_translates_as_marian_does(shared, tmp_path, monkeypatch, capfdbinary):
    model = shared / "models/firefox-en-pt"
    out = tmp_path / "enpt"
    source = model / "model.enpt.intgemm.alphas.bin"
    assert main(["import", source, "--out", out, "--source-lang", "en", "--target-lang", "pt"]) == 0
    names = {path.name for path in out.iterdir()}
    assert names == {"model.pt", "dict.en.txt", "dict.pt.txt", "source.spm", "target.spm", "README.md"}
    lines = (shared / "data/pud/pud.en").read_bytes().split(b"\n")[:LINES]
    text = b"\n".join([*lines[:4], b"", *lines[4:]]) + b"\n"  # an empty line stays where it is
    found = translated(monkeypatch, capfdbinary, text, out, "--beam", "1")
    engine = (model / "pud.marian-greedy.pt").read_text(encoding="utf-8").split("\n")[:LINES]
    assert found == [*engine[:4], "", *engine[4:]]


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "has no config.json"),
        (lambda path: path.write_bytes(b"no model"), "model"),
    ],
)
def test_import_refuses_with_status_2(tmp_path, capsys, make, said):
    make(tmp_path / "model.bin")
    with pytest.raises(SystemExit) as caught:
        main(["import", tmp_path / "model.bin", "--out", tmp_path / "out"])
    message = capsys.readouterr().err
    assert caught.value.code == 2 and said in message and message.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "more, said", [([], "has no source.spm"), (["--beam", "0"], "--beam must be at least 1")]
)
def test_translate_refuses_with_status_2(tmp_path, capsys, more, said):
    with pytest.raises(SystemExit) as caught:
        main(["translate", tmp_path, *more])
    message = capsys.readouterr().err
    assert caught.value.code == 2 and said in message and message.count("\n") == 1
