"""Reading heads.json: what is refused, by file and record."""

import json

import pytest

from fairseq_headprune.analysis import head_table
from fairseq_headprune.base.errors import UserError
from tests.helpers.heads_json import heads_json


@pytest.mark.parametrize(
    "change, words",
    [
        ({"layer": "1"}, "record 3 of 'heads' has a 'layer'"),
        ({"layer": -1}, "'layer'"),
        ({"head": True}, "'head'"),
        ({"functions": 3}, "'functions'"),
        ({"functions": ["dances"]}, "'functions'"),
        ({"functions": ["syntactic nsubj h->d again"]}, "'functions'"),
        ({"functions": [""]}, "'functions'"),
        ({"positional": 3}, "'positional'"),
        ({"confidence": "high"}, "'confidence'"),
        ({"relevance": "high"}, "'relevance'"),
        ({"syntactic": [1]}, "'syntactic'"),
        ({"syntactic": {"nsubj": 1}}, "'syntactic'"),
        ({"rare": "yes"}, "'rare'"),
    ],
)
def test_a_record_of_another_form_is_named(tmp_path, change, words):
    data = heads_json()
    data["heads"][3].update(change)
    (tmp_path / "heads.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=f"heads.json: .*{words}.*make the file anew"):
        head_table.read(str(tmp_path / "heads.json"))


@pytest.mark.parametrize("key", ["provenance", "relations"])
def test_what_is_said_of_the_file_is_an_object(tmp_path, key):
    (tmp_path / "heads.json").write_text(json.dumps({**heads_json(), key: [1]}))
    with pytest.raises(UserError, match="heads.json: 'provenance' and 'relations' must be objects"):
        head_table.read(str(tmp_path / "heads.json"))
