"""Marked tables of Markdown pages."""

import pytest

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.marked_tables import fill, update

PAGE = "before\n<!-- table {} {} -->\n{}\n<!-- end -->\nafter\n"


def told(name, source):
    return f"{name} of {source}"


def test_only_what_is_between_the_marks_changes():
    page = PAGE.format("main", "runs", "STALE\n| of | yesterday |") + PAGE.format("speed", "x/y.json", "")
    expected = PAGE.format("main", "runs", "main of runs") + PAGE.format(
        "speed", "x/y.json", "speed of x/y.json"
    )
    assert fill(page, told) == expected == fill(expected, told)


def test_marks_without_a_line_between_them_are_filled():
    page = "<!-- table a b -->\n<!-- end -->\n"
    assert fill(page, lambda *_: "cell\n") == page.replace("-->\n<!-- end", "-->\ncell\n<!-- end")


def test_a_page_is_changed_in_place_or_only_checked(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format("a", "b", "old"))
    with pytest.raises(UserError, match="page.md does not show what its files say: run this .*page.md"):
        update(page, told, True, "this")
    assert "old" in page.read_text()
    update(page, told, False, "this")
    assert page.read_text() == PAGE.format("a", "b", "a of b")
    update(page, told, True, "this")
    assert [p.name for p in tmp_path.iterdir()] == ["page.md"]


def test_a_table_that_cannot_be_made_leaves_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format("a", "b", "old"))

    def refuse(name, source):
        raise UserError("no")

    with pytest.raises(UserError):
        update(page, refuse, False, "this")
    assert page.read_text() == PAGE.format("a", "b", "old")
    with pytest.raises(UserError, match="cannot read the page .*nowhere.md"):
        update(tmp_path / "nowhere.md", told, False, "this")
