"""``headprune import``, ``translate`` and ``encode`` from file to text, and what they refuse."""

import io
import json
import re
import sys

import pytest

from fairseq_headprune.commands import main
from fairseq_headprune.dump import open_dump
from fairseq_headprune.imports.vocabulary import load_spm
from fairseq_headprune.translation import scoring
from tests.helpers import command_lines

LINES = 12


def translated(monkeypatch, capfdbinary, text, *args):
    """Standard output of translate for this standard input, as lines."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    capfdbinary.readouterr()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(open(1, "wb", closefd=False)))
    assert main(["translate", *args]) == 0
    return capfdbinary.readouterr().out.decode("utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def firefox(shared, tmp_path_factory):
    """The folder of the imported model that Firefox translates with."""
    out = tmp_path_factory.mktemp("firefox") / "enpt"
    source = shared / "models/firefox-en-pt/model.enpt.intgemm.alphas.bin"
    assert main(["import", source, "--out", out, "--source-lang", "en", "--target-lang", "pt"]) == 0
    return out


def test_firefox_translates_as_marian_does(firefox, shared, monkeypatch, capfdbinary):
    model, out = shared / "models/firefox-en-pt", firefox
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


def test_from_plain_text_to_the_picture_of_roles(firefox, shared, tmp_path, monkeypatch, capfdbinary):
    lines = (shared / "data/pud/pud.en").read_bytes().split(b"\n")[:LINES]
    text = b"\n".join([*lines[:2], b"", *lines[2:]]) + b"\n"
    plain = translated(monkeypatch, capfdbinary, text, firefox, "--beam", "1")
    dump = tmp_path / "dump"
    args = [firefox, "--beam", "1", "--dump-attention", dump, "--dump-types", "enc-self,dec-enc"]
    assert translated(monkeypatch, capfdbinary, text, *args) == plain
    records = {record.id: record for record in open_dump(dump)}
    assert sorted(records) == [0, 1, *range(3, LINES + 1)]  # by line; the empty one has no attention
    first, pieces = records[0], load_spm(firefox / "source.spm").encode(lines[0].decode(), out_type=str)
    assert [*pieces, "</s>"] == [
        piece if piece != "<unk>" else pieces[n] for n, piece in enumerate(first.source)
    ]
    assert scoring.splitting(first.target) == "sentencepiece"
    assert "".join(first.target[:-1]).replace("\u2581", " ").strip() == plain[0]
    assert len(first.attention["enc_self"]) == 6 and len(first.attention["dec_enc"]) == 2
    monkeypatch.undo()
    more = ["--frequencies", firefox / "dict.en.txt", "--figures", tmp_path / "pictures", "--quiet"]
    assert not main(["roles", dump, "--out", tmp_path / "roles", *more])
    assert (tmp_path / "pictures/fig01c_heads.png").is_file()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    with pytest.raises(SystemExit):  # never into a dump that is there
        main(["translate", *args])


def test_removed_heads_are_zeroed_heads(firefox, shared, tmp_path, monkeypatch, capfdbinary):
    """The small model translates as the model of full size whose heads are zeros, exported and imported again."""
    layout = [[[h for h in range(8) if (h + layer) % 3] for layer in range(layers)] for layers in (6, 2)]
    text = json.dumps({"enc_self": layout[0], "dec_self": [], "dec_enc": layout[1]})
    small, zeros = tmp_path / "small.pt", tmp_path / "zeros"
    assert not main(["remove", firefox / "model.pt", small, "--layout", text])
    assert not main(["export", "marian", firefox, tmp_path / "m.npz", "--checkpoint", small])
    languages = ["--source-lang", "en", "--target-lang", "pt"]
    assert not main(["import", tmp_path / "m.npz", "--out", zeros, *languages])
    assert (zeros / "dict.en.txt").read_bytes() == (firefox / "dict.en.txt").read_bytes()
    lines = b"\n".join((shared / "data/pud/pud.en").read_bytes().split(b"\n")[:LINES]) + b"\n"
    found = translated(monkeypatch, capfdbinary, lines, firefox, "--beam", "1", "--checkpoint", small)
    whole = translated(monkeypatch, capfdbinary, lines, firefox, "--beam", "1")
    assert found == translated(monkeypatch, capfdbinary, lines, zeros, "--beam", "1") != whole


def test_encoded_data_translates_as_plain_text_does(firefox, shared, tmp_path, monkeypatch, capfdbinary):
    lines = (shared / "data/pud/pud.en").read_bytes().split(b"\n")[:LINES]
    references = (shared / "data/enpt/pud.pt").read_text(encoding="utf-8").split("\n")[:LINES]
    (tmp_path / "text.en").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "text.pt").write_text("\n".join(references), encoding="utf-8")  # no line feed at the end
    data = tmp_path / "data"
    sides = ["--source", tmp_path / "text.en", "--target", tmp_path / "text.pt"]
    assert main(["encode", firefox, *sides, "--out", data]) == 0
    plain = translated(monkeypatch, capfdbinary, b"\n".join(lines) + b"\n", firefox, "--beam", "2")
    printed = command_lines.generate(
        *(data, *command_lines.USER_DIR, "--path", firefox / "model.pt", "--beam", "2", "--cpu"),
        *("--max-len-a", "3", "--max-len-b", "10", "--remove-bpe", "sentencepiece", "--max-tokens", "2000"),
    )
    found = scoring.parse_generate(printed, expected=LINES)
    assert list(found.hypotheses) == plain
    known = [re.sub("[“”]", "<<unk>>", line) for line in references]  # which the model's words lack
    assert list(found.references) == known != references
    assert scoring.splitting_of(str(data)) == "sentencepiece"  # what compare, sweep and ablate score with
    bleu = scoring.score(plain, references)["bleu"]
    assert scoring.score(found.hypotheses, found.references)["bleu"] == bleu > 30
    with pytest.raises(SystemExit):  # never over what is there
        main(["encode", firefox, *sides, "--out", data])
    assert main(["encode", firefox, *sides, "--split", "valid", "--out", data]) == 0
    assert len(list(data.iterdir())) == 2 * 4 + 2


@pytest.mark.parametrize(
    "change, said",
    [
        ({"--split": "train", "--target": None}, "--split train needs --target"),
        ({"--target": b"one\n"}, "not parallel"),
        ({"--source": b"\xff\xfe\n"}, "not UTF-8"),
        ({"--source": b""}, "is empty"),
        ({"folder": None}, "has no source.spm"),
    ],
)
def test_encode_refuses_with_status_2(firefox, tmp_path, capsys, change, said):
    args = {"folder": firefox, "--source": b"a\nb\n", "--target": b"c\nd\n", **change}
    words = ["encode", args.pop("folder") or tmp_path]
    for option, value in args.items():
        if isinstance(value, bytes):
            (tmp_path / option[2:]).write_bytes(value)
            value = tmp_path / option[2:]
        words += [] if value is None else [option, value]
    with pytest.raises(SystemExit) as caught:
        main([*words, "--out", tmp_path / "out"])
    message = capsys.readouterr().err
    assert caught.value.code == 2 and said in message and message.count("\n") == 1
    assert not (tmp_path / "out").exists()
