"""Which heads are switched off together, and what must fit for it."""

import json
from argparse import Namespace

import pytest

from fairseq_headprune.analysis import head_table
from fairseq_headprune.analysis.ablation.by_function import chosen, instead_of, relations_in, sets_of
from fairseq_headprune.analysis.parses import ConlluFile
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.dump import file_sha256
from fairseq_headprune.units.layout import Head, HeadLayout
from tests.helpers.dumps import conllu_text
from tests.helpers.heads_json import heads_json

LAYOUT = HeadLayout.full(6, 8, 6, 8)


@pytest.fixture
def arguments(tmp_path):
    """Options of the command with a heads.json of this checkpoint, which has a head of every kind."""
    (tmp_path / "model.pt").write_bytes(b"weights")
    data = heads_json()
    data["provenance"]["model"]["sha256"] = file_sha256(tmp_path / "model.pt")
    data["heads"][5]["functions"] = ["syntactic nsubj d->h", "syntactic nsubj h->d", "syntactic amod h->d"]

    def write(**changes):
        (tmp_path / "heads.json").write_text(json.dumps({**data, **changes}))
        files = {"checkpoint": str(tmp_path / "model.pt"), "by_function": str(tmp_path / "heads.json")}
        return Namespace(**files, heads=None, replace="zero")

    return write


def test_heads_by_function(arguments):
    sets = sets_of(head_table.read(arguments().by_function))
    assert list(sets) == [
        "positional", "syntactic", "syntactic nsubj", "syntactic amod", "syntactic obj", "rare words"
    ]  # fmt: skip
    assert sets["positional"] == [Head("enc_self", 0, 1), Head("enc_self", 1, 0)]
    assert sets["syntactic nsubj"] == [Head("enc_self", 0, 5), Head("enc_self", 2, 1)]
    assert len(sets["syntactic"]) == 4 and sets["rare words"] == [Head("enc_self", 0, 0)]


def test_chosen(arguments):
    args = arguments()
    args.heads = "dec-enc:5:1,enc-self:0:1"
    sets, offsets = chosen(args, LAYOUT)
    assert sets["given heads"] == [Head("enc_self", 0, 1), Head("dec_enc", 5, 1)]
    assert len(sets) == 7 and offsets[Head("enc_self", 0, 1)] == -1
    heads = sets["positional"]
    assert instead_of("zero", heads, offsets) is None
    assert instead_of("uniform", heads, offsets) == dict.fromkeys(heads)
    assert instead_of("offset", heads, offsets) == dict(zip(heads, (-1, 1)))
    args.by_function = None
    assert list(chosen(args, LAYOUT)[0]) == ["given heads"]


def test_what_does_not_fit(arguments):
    def refused(words, layout=LAYOUT, **changes):
        with pytest.raises(UserError, match=words):
            chosen(Namespace(**{**vars(args), **changes}), layout)

    args = arguments()
    refused("--heads names enc-self:6:0, which the model does not have", heads="enc-self:6:0")
    refused("names enc-self:0:1, which the model does not have", LAYOUT.without([Head("enc_self", 0, 1)]))
    refused("needs the best offset of dec-enc:0:0", heads="dec-enc:0:0", replace="offset")
    refused("give .* to --by-function", heads="dec-enc:0:0", replace="offset", by_function=None)
    refused("is about another checkpoint \\(model-1.pt\\): give the roles of", checkpoint=args.by_function)
    args = arguments(heads=[{**h, "functions": []} for h in heads_json()["heads"]])
    refused("no head of .* has a function: name heads with --heads")


def trees(tmp_path, sentences):
    (tmp_path / "t.conllu").write_text(conllu_text(sentences))
    return ConlluFile(tmp_path / "t.conllu")


def test_relations_of_sentences(tmp_path):
    passive = [("cats", 3, "nsubj:pass"), ("are", 3, "aux:pass"), ("fed", 0, "root")]
    other = [("x", 0, "root")]
    parses = trees(tmp_path, [passive] * 10 + [other])
    sources = [["c@@", "ats", "are", "fed"]] * 10 + [["y"]]
    fits, found = relations_in(parses, sources, "t.conllu")
    assert fits.tolist() == [True] * 10 + [False]
    assert found[0] == {"nsubj", "aux", "root"} and found[10] == {"root"}
    with pytest.raises(UserError, match="2 of 11 sentences have another text than their tree in t.conllu"):
        relations_in(parses, [["dogs"], *sources[1:]], "t.conllu")
    with pytest.raises(UserError, match="has 11 sentences and the data 12"):
        relations_in(parses, sources + [["x"]], "t.conllu")
