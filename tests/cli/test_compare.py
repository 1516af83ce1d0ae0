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
    assert rows[0]["times_same_program"] is None  # both run in stock fairseq's


def test_what_removal_gives_is_told_from_what_our_program_gives(tiny, tmp_path, capsys):
    layout = '{"enc_self": [[0], []], "dec_self": [[1], [2]], "dec_enc": [[0, 1], [3]]}'
    small, out = tmp_path / "small.pt", tmp_path / "numbers.json"
    assert commands.main(["remove", str(tiny.checkpoint), str(small), "--layout", layout]) == 0
    data = ["--data", str(tiny.data), "--json", str(out), "--max-sentences", "8"]
    main([f"before={tiny.checkpoint}", f"small={small}", *data])
    table = capsys.readouterr().out
    before, same, removed = json.loads(out.read_text())["rows"]
    assert same["name"] == "same program, nothing removed" and same["name"] in table
    assert same["heads"] == before["heads"] and same["bleu"] == before["bleu"]
    assert same["parameters"] == before["parameters"] > removed["parameters"]
    assert before["times_same_program"] is None
    assert same["times_same_program"]["median"] == 1.0 and same["times"]["n"] == 3
    # one run, batch by batch: the two ratios differ by the first model's time in our program
    assert removed["times_same_program"]["n"] == 3 and removed["times"] != removed["times_same_program"]
    assert "heads of small:" in table

    main([f"small={small}", f"before={tiny.checkpoint}", *data])  # ours first: it is the yardstick itself
    small, before = json.loads(out.read_text())["rows"]
    assert small["times_same_program"]["median"] == 1.0 and before["times_same_program"] is None


@pytest.mark.parametrize(
    "words, message",
    [
        (["only-a-path.pt"], "NAME=FILE"),
        (["=a.pt"], "NAME=FILE"),
        (["a=none.pt"], "none.pt"),
        (["same program, nothing removed=1.pt"], "choose another"),
        (["a=1.pt", "a=2.pt"], "two checkpoints are called 'a'"),
        (["a=1.pt", "--beam", "0"], "--beam"),
        (["a=1.pt", "--max-sentences", "-1"], "--max-sentences"),
        (["a=1.pt", "--tokenize", "no"], "--tokenize"),
        (["a=1.pt", "--json", "no/such/x.json"], "--json no/such/x.json"),
        (["a=1.pt", "--json", "."], "--json . is a folder: name a file"),
        (["a=1.pt", "--json", ""], "--json is empty: name a file"),
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
