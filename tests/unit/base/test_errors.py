"""Output paths that an unset variable of the shell leaves empty."""

import argparse

import pytest

from fairseq_headprune.base.errors import out_folder
from fairseq_headprune.commands import COMMANDS


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_path_is_refused_by_its_option(text, capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=out_folder)
    assert parser.parse_args(["--out", "runs/new"]).out == "runs/new"
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(["--out", text])
    assert (
        stopped.value.code == 2
        and capsys.readouterr().err == "error: --out is empty: name a folder, . for the current one\n"
    )


@pytest.mark.parametrize("command", ["roles", "match", "ablate", "figures"])
def test_the_analysis_refuses_it(command, monkeypatch, tmp_path, capsys):
    import importlib

    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser()
    importlib.import_module(COMMANDS[command][0]).add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--out", ""])
    assert capsys.readouterr().err.startswith("error: --out is empty") and not list(tmp_path.iterdir())
