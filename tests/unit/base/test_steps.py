"""Step files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_headprune.base.errors import UserError
from fairseq_headprune.base.steps import Steps, read_json, write_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(values)
def test_json_comes_back_as_it_was(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "x.json"
    write_json(value, path)
    assert read_json(path) == value


def test_heads_of_a_layer_stand_on_one_line(tmp_path):
    write_json({"enc_self": [[0, 3], []], "text": "[\n1,\n2]"}, tmp_path / "x.json")
    assert (tmp_path / "x.json").read_text().splitlines()[1:5] == [
        ' "enc_self": [',
        "  [0, 3],",
        "  []",
        " ],",
    ]


def test_nothing_is_left_beside_a_written_file(tmp_path):
    write_json({}, tmp_path / "x.json")
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_step_is_finished_once(tmp_path):
    steps = Steps(tmp_path)
    assert not steps.finished("train", ["a"])
    steps.finish("train", ["a"], 1.23)
    assert steps.finished("train", ["a"]) and steps.seconds() == {"train": 1.2}
    with pytest.raises(UserError, match="other options"):
        steps.finished("train", ["b"])


def test_broken_files_are_named(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UserError, match="cannot read .*x.json"):
        read_json(tmp_path / "x.json")
    assert json.loads("{}") == {}
