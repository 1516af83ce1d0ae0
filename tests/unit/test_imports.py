"""What importing costs, and that --user-dir registers whatever was imported before."""

import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_headprune

FOLDER = Path(fairseq_headprune.__file__).parent

HEAVY = "print(sorted({'fairseq', 'torch', 'scipy', 'matplotlib'} & set(sys.modules)))"
REGISTERED = (
    "from fairseq.models import ARCH_MODEL_REGISTRY as a; from fairseq.criterions import CRITERION_REGISTRY as c;"
    "from fairseq.tasks import TASK_REGISTRY as t;"
    "print('gated_transformer' in a, 'label_smoothed_cross_entropy_l0' in c, 'translation_headprune' in t)"
)
USER_DIR = f"from argparse import Namespace; from fairseq import utils; utils.import_user_module(Namespace(user_dir={str(FOLDER)!r}));"


def said(code, cwd=None):
    """Standard output of a new Python that runs this."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize(
    "what",
    [
        "fairseq_headprune",
        "fairseq_headprune.units.layout",
        "fairseq_headprune.base.files",
        "fairseq_headprune.commands",
        "fairseq_headprune.layout",
    ],
)
def test_the_library_loads_neither_fairseq_nor_torch(what):
    assert said(f"import sys, {what}; {HEAVY}") == "[]"


@pytest.mark.parametrize(
    "what",
    ["fairseq_headprune.units.gates", "fairseq_headprune.dump", "fairseq_headprune.analysis.roles.command"],
)
def test_gates_dumps_and_roles_load_no_fairseq(what):
    assert "fairseq" not in said(f"import sys, {what}; {HEAVY}")


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import fairseq_headprune;",
        "import fairseq_headprune.units.gates, fairseq;",
        "import fairseq_headprune; fairseq_headprune.register();",
        "import fairseq_headprune.checkpoints.reading;",
    ],
)
def test_user_dir_registers_in_any_order(before):
    assert said(before + USER_DIR + REGISTERED).splitlines()[-1] == "True True True"


def test_user_dir_prints_the_folder(capsys):
    from fairseq_headprune.commands import main

    assert main(["user-dir"]) == 0
    assert capsys.readouterr().out.strip() == str(FOLDER)
