"""``headprune compare`` on a tiny model."""

import json

import pytest

from fairseq_headprune import commands


def main(args):
    return commands.main(["compare", *args])


def test_two_checkpoints_translate_every_sentence(tiny, tmp_path, capsys):
    out = tmp_path / "numbers.json"
    main([f"a={tiny.checkpoint}", f"b={tiny.checkpoint}", "--data", str(tiny.data), "--json", str(out)])
    table = capsys.readouterr().out
    rows = json.loads(out.read_text())["rows"]
    assert [r["sentences"] for r in rows] == [24, 24] and "24 sentences" in table
    assert rows[0]["bleu"] == rows[1]["bleu"] and rows[0]["times"]["median"] == 1.0
    assert rows[0]["heads"] == {"enc_self": 8, "dec_self": 8, "dec_enc": 8}


@pytest.mark.parametrize(
    "words, message",
    [
        (["only-a-path.pt"], "NAME=FILE"),
        (["=a.pt"], "NAME=FILE"),
        (["a=none.pt"], "none.pt"),
        (["a=1.pt", "a=2.pt"], "two checkpoints are called 'a'"),
        (["a=1.pt", "--beam", "0"], "--beam"),
        (["a=1.pt", "--max-sentences", "-1"], "--max-sentences"),
        (["a=1.pt", "--tokenize", "no"], "--tokenize"),
        (["a=1.pt", "--json", "no/such/x.json"], "--json no/such/x.json"),
        (["a=1.pt", "--json", "."], "--json '.' is not a file: name the JSON file"),
        (["a=1.pt", "--json", ""], "--json '' is not a file: name the JSON file"),
    ],
)
def test_bad_input(tiny, words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*words, "--data", str(tiny.data)])
    assert caught.value.code == 2 and message in capsys.readouterr().err


def test_unknown_set_is_named(tiny, capsys):
    with pytest.raises(SystemExit):
        main([f"a={tiny.checkpoint}", "--data", str(tiny.data), "--gen-subset", "dev"])
    assert "no 'dev' set" in capsys.readouterr().err
