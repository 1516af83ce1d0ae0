"""The corpus on disk: what it holds, that it is the same every time, and where it may be written."""

import io
import os

import conllu
import pytest
from subword_nmt.apply_bpe import BPE

from demo_language import corpus
from fairseq_headprune.base.errors import UserError

SIZES = {"train": 300, "valid": 10, "test": 20}


@pytest.fixture(scope="module")
def files():
    return corpus.corpus_files(corpus.draw_splits(3, SIZES), merges=200)


def test_every_split_has_its_lines_and_trees(files):
    assert set(files) == set(corpus.FILE_NAMES)
    for split, size in SIZES.items():
        for suffix in ("src", "tgt", "bpe.src", "bpe.tgt"):
            assert files[f"{split}.{suffix}"].count("\n") == size
        assert len(conllu.parse(files[f"{split}.conllu"])) == size


def test_conllu_is_read_back_as_it_was_written_and_spells_the_text(files):
    trees = conllu.parse(files["test.conllu"])
    assert "".join(tree.serialize() for tree in trees) == files["test.conllu"]
    for tree, line in zip(trees, files["test.src"].splitlines()):
        assert " ".join(token["form"] for token in tree) == line == tree.metadata["text"]
        assert [token["id"] for token in tree] == list(range(1, len(tree) + 1))
    assert [tree.metadata["sent_id"] for tree in trees] == [f"test-{i}" for i in range(20)]


@pytest.mark.parametrize("language", ["src", "tgt"])
def test_pieces_are_those_of_the_codes_and_join_to_the_text(files, language):
    bpe = BPE(io.StringIO(files["codes"]))
    text, pieces = files[f"test.{language}"], files[f"test.bpe.{language}"]
    assert pieces.replace("@@ ", "") == text and "@@ " in pieces
    assert "".join(bpe.process_line(line) + "\n" for line in text.splitlines()) == pieces


def test_no_source_sentence_occurs_twice(files):
    lines = [line for split in SIZES for line in files[f"{split}.src"].splitlines()]
    assert len(set(lines)) == len(lines)


def test_a_seed_gives_the_same_files_and_another_one_does_not(files):
    assert corpus.corpus_files(corpus.draw_splits(3, SIZES), merges=200) == files
    assert corpus.corpus_files(corpus.draw_splits(4, SIZES), merges=200)["test.src"] != files["test.src"]


def test_more_sentences_to_train_on_leave_the_test_set_alone(files):
    more = corpus.draw_splits(3, {**SIZES, "train": 310})
    assert "".join(pair.source_text + "\n" for pair in more["test"]) == files["test.src"]
    assert "".join(pair.target_text + "\n" for pair in more["test"]) == files["test.tgt"]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("size", [0, -3])
def test_a_split_of_no_sentences_is_refused(split, size):
    with pytest.raises(UserError, match=f"--{split} {size} is not a number of sentences"):
        corpus.draw_splits(1, {**SIZES, split: size})


# -- where it is written ----------------------------------------------------------------


def test_files_appear_in_a_new_folder_and_nothing_else_does(tmp_path, files):
    folder = corpus.open_folder(str(tmp_path / "a" / "b"))
    corpus.write_corpus(folder, files)
    assert {path.name: path.read_text() for path in folder.iterdir()} == files


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path, files):
    (tmp_path / "valid.src").write_text("mine")
    with pytest.raises(UserError, match="already holds valid.src: name another folder or add --force"):
        corpus.open_folder(str(tmp_path))
    assert corpus.open_folder(str(tmp_path), force=True) == tmp_path


@pytest.mark.parametrize(
    "out, words",
    [
        ("", "--out is empty"),
        ("file", "--out .*file is a file: name a folder"),
        ("file/below", "--out .*below cannot be written to .*: name another folder"),
    ],
)
def test_what_is_no_folder_is_refused(tmp_path, out, words):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=words):
        corpus.open_folder(out and str(tmp_path / out))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="cannot be written to"):
        corpus.open_folder(str(tmp_path))


def test_a_failure_halfway_leaves_nothing(tmp_path, files):
    folder = corpus.open_folder(str(tmp_path))
    with pytest.raises(UserError, match="cannot write to --out"):
        corpus.write_corpus(folder, {**files, "no/such/folder": ""})
    assert not list(tmp_path.iterdir())
