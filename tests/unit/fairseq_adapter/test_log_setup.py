"""Importing fairseq leaves the logging of a program as it was."""

import logging
import subprocess
import sys

from fairseq_headprune.fairseq_adapter.log_setup import unchanged_logging


def test_handlers_level_and_silence_come_back(capfd):
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with unchanged_logging():
            root.addHandler(logging.StreamHandler())
            root.setLevel(logging.DEBUG)
            logging.getLogger("noisy").info("please install something")
            logging.getLogger("noisy").warning("something is wrong")
    finally:
        after = list(root.handlers), root.level
        root.handlers[:], root.level = handlers, level
    assert after == (handlers, level) and root.manager.disable == 0
    said = capfd.readouterr().err
    assert "something is wrong" in said and "please install" not in said


def test_a_program_that_imports_us_stays_silent():
    code = "import logging, fairseq_headprune; logging.getLogger('x').debug('no'); print(logging.root.level)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{logging.WARNING}\n" and "tensorboardX" not in done.stderr and done.stderr == ""
