"""HeadLayout: JSON, masks and text are three views of one set of heads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.units.layout import (
    ATTENTION_TYPES,
    Head,
    HeadLayout,
    parse_head,
    parse_type,
    parse_types,
)

FULL = HeadLayout.full(2, 4, 3, 2)


def layers(count, heads):
    one = st.sets(st.integers(0, heads - 1)).map(lambda s: tuple(sorted(s)))
    return st.lists(one, min_size=count, max_size=count).map(tuple)


LAYOUTS = st.builds(HeadLayout, layers(2, 4), layers(3, 2), layers(3, 2))


@given(LAYOUTS)
def test_json_and_masks_give_the_layout_back(layout):
    assert HeadLayout.from_json(layout.to_json()) == layout
    masks = layout.masks({"enc_self": 4, "dec_self": 2, "dec_enc": 2})
    assert HeadLayout.from_masks(masks) == layout
    assert HeadLayout.from_heads(list(layout), layout) == layout
    assert len(layout) == sum(layout.counts().values()) == sum(int(m.sum()) for m in masks.values())
    layout.check_within(FULL)


@given(LAYOUTS.filter(len))
def test_heads_as_a_command_line_names_them(layout):
    assert HeadLayout.parse(", ".join(map(str, layout)), FULL, "--heads") == layout


@pytest.mark.parametrize(
    "text, words",
    [
        ("enc-self:0:4", "--heads names enc-self:0:4, which the model does not have"),
        ("enc-self:2:0", "--heads names enc-self:2:0"),
        ("enc-self:0:1,", "'' is not a head"),
    ],
)
def test_heads_that_do_not_exist(text, words):
    with pytest.raises(UserError, match=words):
        HeadLayout.parse(text, FULL, "--heads")


@given(LAYOUTS)
def test_table_shows_every_kept_head_once(layout):
    table = layout.table(FULL)
    digits = sum(c.isdigit() for line in table.splitlines()[1:-1] for c in line[5:])
    assert digits == len(layout)
    assert table.count(".") == len(FULL) - len(layout)


def test_without_takes_only_the_named_heads():
    gone = Head("dec_enc", 2, 1)
    left = FULL.without([gone])
    assert gone in FULL and gone not in left and len(left) == len(FULL) - 1


def test_types_on_the_command_line():
    assert parse_types("all") == ATTENTION_TYPES
    assert parse_types("none") == ()
    assert parse_types("dec-enc,enc-self") == ("enc_self", "dec_enc")
    assert parse_type("dec_self") == "dec_self"
    assert parse_head("enc-self:1:3") == Head("enc_self", 1, 3)
    assert str(Head("enc_self", 1, 3)) == "enc-self:1:3"


@pytest.mark.parametrize("text", ["enc", "enc-self,encoder", "", "enc-self;dec-self"])
def test_an_unknown_type_is_named(text):
    if text:
        with pytest.raises(UserError, match="unknown attention type"):
            parse_types(text)


@pytest.mark.parametrize(
    "text, word",
    [
        ("[1]", "exactly the keys"),
        ("{", "not JSON"),
        ('{"enc_self": [[0]], "dec_self": [[0]]}', "exactly the keys"),
        ('{"enc_self": [[0, 0]], "dec_self": [[]], "dec_enc": [[]]}', "names a head twice"),
        ('{"enc_self": [[-1]], "dec_self": [[]], "dec_enc": [[]]}', "enc_self"),
        ('{"enc_self": [0], "dec_self": [[]], "dec_enc": [[]]}', "enc_self"),
        ('{"enc_self": [["0"]], "dec_self": [[]], "dec_enc": [[]]}', "enc_self"),
    ],
)
def test_bad_json_is_refused_with_the_file_and_the_reason(text, word, tmp_path):
    path = tmp_path / "layout.json"
    path.write_text(text)
    with pytest.raises(UserError, match=word) as caught:
        HeadLayout.load(path)
    assert str(path) in str(caught.value)


def test_heads_that_do_not_exist_are_named():
    with pytest.raises(UserError, match="enc-self:1:7"):
        HeadLayout(((), (7,)), FULL.dec_self, FULL.dec_enc).check_within(FULL)
    with pytest.raises(UserError, match="1 layers of enc-self"):
        HeadLayout(((),), FULL.dec_self, FULL.dec_enc).check_within(FULL)
