"""A tiny translation model and its data, made once for all command-line tests."""

from types import SimpleNamespace

import pytest

from tests.helpers import command_lines


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> SimpleNamespace:
    """``data``: binarised data with 300 training and 24 test sentences; ``text``: the folder of the
    text; ``checkpoint``: a stock ``transformer``, 2+2 layers with 4 heads."""
    root = tmp_path_factory.mktemp("tiny")
    command_lines.number_corpus(root, {"train": 300, "test": 24})
    command_lines.preprocess(
        *("--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"),
        *("--trainpref", root / "train", "--testpref", root / "test"),
        *("--destdir", root / "data-bin"),
    )
    checkpoint = command_lines.tiny_model(root / "stock", root / "data-bin")
    return SimpleNamespace(data=root / "data-bin", text=root, checkpoint=checkpoint)
