"""Which file a training starts from."""

from types import SimpleNamespace

import pytest

from fairseq_headprune.models.starting_file import starting_file


@pytest.mark.parametrize(
    "last, restore, finetune, expected",
    [
        (True, "checkpoint_last.pt", "base.pt", ("out/checkpoint_last.pt", True)),
        (False, "checkpoint_last.pt", "base.pt", ("base.pt", False)),
        (True, "base.pt", None, ("base.pt", False)),
        (False, "checkpoint_last.pt", None, (None, False)),
        (False, "checkpoint_last.pt", "none.pt", (None, False)),
        (False, "none.pt", None, (None, False)),
        (False, "out", None, (None, False)),
    ],
)
def test_a_run_goes_on_before_it_starts_from_another_file(
    tmp_path, monkeypatch, last, restore, finetune, expected
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "base.pt").touch()
    if last:
        (tmp_path / "out" / "checkpoint_last.pt").touch()
    for save_dir in ("out", "out/"):
        options = SimpleNamespace(restore_file=restore, finetune_from_model=finetune, save_dir=save_dir)
        assert starting_file(options) == expected
