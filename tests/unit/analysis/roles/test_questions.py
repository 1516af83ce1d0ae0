"""What trees ask: relations by direction and unit, for several sentences at once."""

import pytest

from fairseq_headprune.analysis.alignment import Misfit, align
from fairseq_headprune.analysis.parses import ConlluFile
from fairseq_headprune.analysis.roles.questions import Questions, align_all
from tests.helpers.dumps import conllu_text
from tests.unit.analysis.test_words import TABLE

SENTENCES = [
    ("a b@@ c d", [("a", 2, "nsubj"), ("bc", 0, "root"), ("d", 2, "obj")]),
    ("w x y z", [("w", 4, "amod"), ("x", 4, "nsubj:pass"), ("y", 4, "dobj"), ("z", 0, "root")]),
    ("a b c d", [("x", 0, "root")]),  # another text
    (
        "I don &apos;t go",
        [("I", 4, "nsubj"), ("do", 4, "nsubj"), ("n't", 2, "obj"), ("go", 0, "root")],
    ),
    ("u <unk> w x", [("u", 3, "det"), ("v", 3, "amod"), ("w", 0, "root"), ("x", 3, "obj")]),
]


def questions(tmp_path, relations=("nsubj", "obj", "amod"), keep_subtypes=False):
    path = tmp_path / "trees.conllu"
    path.write_text(conllu_text([tree for _, tree in SENTENCES]))
    return Questions(ConlluFile(path), relations, keep_subtypes)


def test_questions(tmp_path):
    asked = questions(tmp_path).ask(range(5), [text.split() for text, _ in SENTENCES])
    found = list(zip(*(getattr(asked, name).tolist() for name in ("sentence", "query", "slot", "key"))))
    assert found == sorted(found)
    assert set(found) == {
        (0, 1, 0, 0), (0, 0, 1, 1), (0, 1, 2, 2), (0, 2, 3, 1),
        (1, 3, 4, 0), (1, 0, 5, 3), (1, 3, 0, 1), (1, 1, 1, 3), (1, 3, 2, 2), (1, 2, 3, 3),
        (3, 2, 0, 0), (3, 0, 1, 2), (3, 2, 0, 1), (3, 1, 1, 2),  # "do n't" is one unit
        (4, 2, 4, 1), (4, 1, 5, 2), (4, 2, 2, 3), (4, 3, 3, 2),
    }  # fmt: skip
    assert asked.merged_words == asked.inside == 1
    assert [number for number, _ in asked.misfits] == [2]
    assert asked.cuts.first[0].tolist() == [0, 1, 3, 4]
    assert asked.cuts.pieces.tolist() == [[1, 2, 1, 0], [1] * 4, [0] * 4, [1, 2, 1, 0], [1] * 4]


def test_subtypes(tmp_path):
    asked = questions(tmp_path, ("nsubj:pass", "nsubj"), True).ask([1], ["w x y z".split()])
    assert asked.slot.tolist() == [1, 0]


def test_no_sentence_fits(tmp_path):
    asked = questions(tmp_path).ask([2, 2], ["a b c d".split()] * 2)
    assert not len(asked.sentence) and len(asked.misfits) == 2


@pytest.mark.parametrize("size", range(1, 9))
def test_together_as_one_by_one(size):
    cases = [case for case in TABLE if len(case[0].split(" ")) == size]
    cases += [("x " * (size - 1) + "y", "other", None, None)]
    tokens = [case[0].split(" ") for case in cases]
    surfaces = [case[1].split(" ") for case in cases]
    units, misfits = align_all(tokens, surfaces)
    for number, (pieces, forms) in enumerate(zip(tokens, surfaces)):
        try:
            starts, unit_of_word = align(pieces, forms)
        except Misfit as misfit:
            assert units[number] is None and (number, str(misfit)) in misfits
        else:
            assert (list(units[number][0]), list(units[number][1])) == (starts, unit_of_word)
