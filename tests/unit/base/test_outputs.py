"""Output options are checked when they are read: by name, before any work, leaving nothing behind."""

import argparse
import importlib
import os

import pytest

from fairseq_headprune.base import outputs
from fairseq_headprune.base.errors import UserError
from fairseq_headprune.commands import COMMANDS

OPTIONS = {
    "compare": ["--json"],
    "sweep": ["--out", "--results", "--figures"],
    "roles": ["--out"],
    "match": ["--out"],
    "ablate": ["--out"],
    "relevance": ["--out"],
    "figures": ["--out"],
    "maps": ["--out"],
    "report": ["--out"],
    "import": ["--out"],
    "encode": ["--out"],
    "translate": ["--dump-attention"],
}


def parser_of(command):
    parser = argparse.ArgumentParser()
    importlib.import_module(COMMANDS[command][0]).add_arguments(parser)
    return parser


@pytest.mark.parametrize("command, option", [(c, o) for c, names in OPTIONS.items() for o in names])
def test_every_command_checks_its_outputs_first(command, option, monkeypatch, tmp_path, capsys):
    def read_only(dir):
        raise OSError(30, "Read-only file system")

    monkeypatch.chdir(tmp_path)
    for text, words in (
        ("", f"{option} is empty: name a "),
        ("here", f"{option} here (Read-only file system)"),
    ):
        if text:
            monkeypatch.setattr(outputs.tempfile, "TemporaryFile", read_only)
        with pytest.raises(SystemExit) as stopped:
            parser_of(command).parse_args([option, text])
        said = capsys.readouterr().err
        assert stopped.value.code == 2 and words in said
        assert said.startswith("error: ") and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_no_output_option_is_forgotten():
    """What writes says so in its help: options with these words are checked, or known to need none."""
    for command in COMMANDS:
        for action in parser_of(command)._actions:
            writes = any(word in (action.help or "") for word in ("folder for", "to write", "write the"))
            if writes and action.option_strings and action.nargs != 0:
                assert action.option_strings[0] in OPTIONS.get(command, []), (command, action)


@pytest.mark.parametrize("text", ["runs/new", ".", "new/"])
def test_a_folder_that_can_be_made_is_not_made(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert outputs.folder("--out")(text) == text
    assert not list(tmp_path.iterdir())


def test_what_is_in_the_way_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        ("folder", "is a folder: name a file"),
        ("folder/", "is a folder: name a file"),
        ("pipe", "is a device or the like"),
        ("/dev/null", "is a device or the like"),
        ("file/x", "is a file, so name another file"),
        ("link/x", "is a link to nowhere"),
        ("x" * 300, "can be no file: File name too long"),
        ("a\0b", "can be no file: .*null"),
    ):
        with pytest.raises(UserError, match=words):
            outputs.check_file(path, "--json")
    for path, words in (("file", "is a file, so name another folder"), ("link", "link to nowhere")):
        with pytest.raises(UserError, match=words):
            outputs.check_folder(path, "--out")
    with pytest.raises(UserError, match="the folder of --json new/x does not exist: create it first"):
        outputs.check_file("new/x", "--json", make=False)
    outputs.check_file("new/x", "--json")
    outputs.check_file("file", "--json")  # a file that is there is replaced
