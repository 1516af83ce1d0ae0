"""CoNLL-U files: what is read, and which line is named when one is broken."""

import gzip

import pytest

from fairseq_headprune.analysis import parses
from fairseq_headprune.analysis.parses import ConlluFile, Parse, parse_block, relation_name
from fairseq_headprune.base.errors import UserError
from tests.helpers.dumps import conllu_text
from tests.reference import conllu_trees

ZUM = """\
# text = Ich gehe zum Haus
1\tIch\tich\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tgehe\tgehen\tVERB\t_\t_\t0\troot\t_\t_
2.1\tx\tx\tX\t_\t_\t_\t_\t2:dep\t_
3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_
3\tzu\tzu\tADP\t_\t_\t5\tcase\t_\t_
4\tdem\tder\tDET\t_\t_\t5\tdet\t_\t_
5\tHaus\tHaus\tNOUN\t_\t_\t2\tobl\t_\t_
"""

DONT = """\
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_
"""


def plain(parse):
    return tuple(list(part) for part in parse)


def test_multi_word_tokens_and_empty_nodes():
    assert plain(parse_block(ZUM, "f", 1)) == (
        ["Ich", "gehe", "zum", "Haus"],
        [0, 1, 2, 2, 3],
        [1, -1, 4, 4, 1],
        ["nsubj", "root", "case", "det", "obl"],
    )
    # Words that spell their token stay apart: they can be aligned one by one.
    assert plain(parse_block(DONT, "f", 1))[:2] == (["Do", "n't", "go"], [0, 1, 2])


def test_sentences_in_any_order(tmp_path):
    text = conllu_text([[("a", 2, "det"), ("b", 0, "root")], [("c", 0, "root")]]) + ZUM
    path = tmp_path / "t.conllu"
    path.write_text(text, encoding="utf-8")
    trees = ConlluFile(path)
    assert len(trees) == 3
    assert trees[2].surface[2] == "zum"
    assert plain(trees[0]) == (["a", "b"], [0, 1], [1, -1], ["det", "root"])
    assert trees[1].surface == ["c"]
    expected = [plain(trees[i]) for i in range(3)]  # read now: the file is about to change
    for variant in (text.replace("\n", "\r\n"), "\n\n" + text + "\n\n# the end\n"):
        path.write_bytes(variant.encode())
        assert [plain(ConlluFile(path)[i]) for i in range(3)] == expected
    packed = tmp_path / "t.conllu.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert [plain(ConlluFile(packed)[i]) for i in range(3)] == expected


GOOD = conllu_text([[("a", 2, "det"), ("b", 0, "root")], [("c", 0, "root"), ("d", 1, "dep")]])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("1\tc\t_", "1\tc", "line 6: 9 columns"),
        ("2\td\t", "3\td\t", "line 7: word number 3 where 2 is due"),
        ("2\td\t_\tX\t_\t_\t1", "2\td\t_\tX\t_\t_\t9", "line 7: word 2 cannot depend on word 9"),
        ("2\td\t_\tX\t_\t_\t1", "2\td\t_\tX\t_\t_\t2", "line 7: word 2 cannot depend on word 2"),
        ("2\td\t_\tX\t_\t_\t1", "2\td\t_\tX\t_\t_\t_", "line 7: '_' is not the number"),
        ("2\td\t", "2-\td\t", "line 7: '2-' is not a word number"),
        ("2\td\t", "2-9\td\t", "line 7: words 2-9 are not in the sentence"),
    ],
)
def test_broken_lines_are_named(tmp_path, old, new, message):
    assert old in GOOD
    path = tmp_path / "broken.conllu"
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=f"broken.conllu, {message}"):
        ConlluFile(path)[1]


def test_byte_order_marks_and_line_ends_far_into_the_file(tmp_path):
    plain_text = (GOOD * 3000).encode()  # longer than what one look at the start would see
    assert len(plain_text) > 1 << 17
    expected = [plain(parse_block(block, "f", 1)) for block in GOOD.strip().split("\n\n")] * 3000
    bom = b"\xef\xbb\xbf"
    half = len(GOOD) * 1500
    mixed = plain_text[:half] + plain_text[half:].replace(b"\n", b"\r\n")
    for variant in (bom + plain_text, mixed, bom + mixed, gzip.compress(bom + mixed)):
        (tmp_path / "t").write_bytes(variant)
        trees = ConlluFile(tmp_path / "t")
        assert [plain(trees[i]) for i in range(len(trees))] == expected


@pytest.mark.parametrize(
    "heads, message",
    [
        ((2, 1, 2), "line 4: sentence 1 .counted from 0. has no root"),
        ((0, 1, 0), "line 6: sentence 1 .counted from 0. has 2 roots, e.g. words 1 and 3"),
        ((0, 3, 2), "line 5: sentence 1 .counted from 0. has a cycle: word 2 "),
        ((3, 1, 2, 0), "line 4: sentence 1 .counted from 0. has a cycle: word 1 "),
    ],
)
@pytest.mark.parametrize("more", ["", "1.1\tx\tx\tX\t_\t_\t_\t_\t_\t_\n"])
def test_what_is_no_tree(tmp_path, heads, message, more):
    rows = "".join(f"{i}\tw\t_\tX\t_\t_\t{head}\tdep\t_\t_\n" for i, head in enumerate(heads, 1))
    path = tmp_path / "odd.conllu"
    path.write_text("# x\n1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n" + rows + more + "\n")
    with pytest.raises(UserError, match=f"odd.conllu, {message}"):
        ConlluFile(path)[1]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding, pack):
    (tmp_path / "wide.conllu").write_bytes(pack(("\ufeff" + GOOD).encode(encoding)))
    with pytest.raises(UserError, match="wide.conllu is UTF-16 text: save it as UTF-8"):
        ConlluFile(tmp_path / "wide.conllu")


@pytest.mark.parametrize(
    "stanford, universal",
    [("nsubjpass", "nsubj:pass"), ("csubjpass", "csubj:pass"), ("auxpass", "aux:pass"), ("dobj", "obj")],
)
def test_both_label_schemes_give_the_same_relations(stanford, universal):
    for keep in (False, True):
        assert relation_name(stanford, keep) == relation_name(universal, keep)
    assert relation_name("nsubjpass") == "nsubj"


def test_files_that_are_no_conllu(tmp_path):
    with pytest.raises(UserError, match="cannot read the parses"):
        ConlluFile(tmp_path / "none")
    (tmp_path / "empty").write_text("\n# nothing\n")
    with pytest.raises(UserError, match="holds no sentences"):
        ConlluFile(tmp_path / "empty")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(GOOD.encode() * 50)[:-20])
    with pytest.raises(UserError, match="cannot read the parses"):
        ConlluFile(tmp_path / "cut.gz")
    (tmp_path / "latin").write_bytes(GOOD.replace("1\tc", "1\tü").encode("latin-1"))
    with pytest.raises(UserError, match="line 6: the sentence is not UTF-8"):
        ConlluFile(tmp_path / "latin")[1]


def test_relation_names():
    assert [relation_name(x) for x in ("nsubj:pass", "dobj", "OBJ", "advmod")] == [
        "nsubj", "obj", "obj", "advmod"
    ]  # fmt: skip
    assert relation_name("nsubj:pass", keep_subtypes=True) == "nsubj:pass"


@pytest.mark.parametrize("block", [1, 7, 100])
def test_where_a_block_ends_does_not_matter(tmp_path, monkeypatch, block):
    sentences = [[(f"word{i}", 0, "root"), ("x" * (i % 9), 1, "dep")] for i in range(1, 60)]
    path = tmp_path / "large.conllu"
    path.write_text(conllu_text(sentences), encoding="utf-8")
    monkeypatch.setattr(parses, "_BLOCK", block)
    trees = ConlluFile(path)
    assert [trees[i].surface for i in range(len(trees))] == [
        [form for form, *_ in sentence] for sentence in sentences
    ]


@pytest.mark.parametrize("name", ["pud/en_pud-ud-test", "ewt/en_ewt-ud-dev"])
def test_real_treebanks_as_the_conllu_package_reads_them(shared, name):
    path = shared / "data" / f"{name}.conllu.gz"
    trees = ConlluFile(path)
    expected = conllu_trees.read(path)
    assert len(trees) == len(expected)
    assert [plain(trees[i]) for i in range(len(trees))] == [plain(Parse(*e)) for e in expected]
