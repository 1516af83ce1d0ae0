"""Frequency files."""

import pytest

from fairseq_headprune.analysis import frequencies
from fairseq_headprune.base.errors import UserError


def test_fairseq_dictionary(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("the 900\na 900\ndog 30 #fairseq:overwrite\nnew york 4\n\u2028 3\nmadeupword0000 0\n")
    loaded = frequencies.load(path, 2)
    assert loaded.counts == {"the": 900, "a": 900, "dog": 30, "new york": 4, "\u2028": 3}
    assert loaded.frequent == {"the", "a"}
    numbers = loaded.numbers(["a", "olm", "dog", "<unk>", "olm", "newt"])
    assert numbers[1] == numbers[4] < 0 and numbers[5] < 0 and numbers[1] != numbers[5]
    counts, frequent = loaded.look_up(numbers)
    assert list(counts) == [900, 0, 30, 0, 0, 0]
    assert list(frequent) == [True, False, False, False, False, False]


def test_tabs_and_any_order(tmp_path):
    path = tmp_path / "counts.tsv"
    path.write_text("rare\t1\nthe\t50\n")
    assert frequencies.load(path, 1).frequent == {"the"}


@pytest.mark.parametrize(
    "text, message",
    [
        ("the 3\nfour\n", "line 2"),
        ("the 3\na x\n", "line 2"),
        ("the 3\na 1234567890123456789\n", "line 2"),
        ("", "no token"),
        ("a 0\n", "no token"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "dict.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        frequencies.load(path, 500)
    with pytest.raises(UserError, match="cannot read the frequencies"):
        frequencies.load(tmp_path / "none", 500)
    path.write_bytes(b"\xff\xfe 3\n")
    with pytest.raises(UserError, match="cannot read the frequencies"):
        frequencies.load(path, 500)
