"""What the heads of a point do: dump attention on one subset, run `analysis roles`, keep functions."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_headprune.base.steps import Steps, read_json, shown
from fairseq_headprune.experiments import commands


@dataclass(frozen=True)
class Analysis:
    """The subset to dump, and more options for ``headprune roles`` (trees, frequencies)."""

    subset: str
    roles_options: tuple[str, ...] = ()


def dump_command(model: str, data: str, subset: str, max_tokens: int, dump: Path) -> list[str]:
    """Beam search over the subset once more, with the attention of every head written to ``dump``."""
    command = commands.translate(model, data, subset, 5, max_tokens)
    return command + ["--task", "translation_headprune", "--dump-attention", str(dump)]


def roles_command(dump: Path, out: Path, options: Sequence[str]) -> list[str]:
    """``headprune roles``, quiet."""
    start = [sys.executable, "-m", "fairseq_headprune", "roles", str(dump), "--out", str(out), "--quiet"]
    return start + list(options)


def functions(heads: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The functions of every head, from the contents of a heads.json."""
    keys = ("type", "layer", "head", "functions")
    return [{key: head[key] for key in keys} for head in heads["heads"]]


def analyse(analysis: Analysis, steps: Steps, model: str, data: str, max_tokens: int) -> list[dict[str, Any]]:
    """Make FOLDER/dump and FOLDER/roles, or what is missing of them; returns the functions."""
    dump, out = steps.folder / "dump", steps.folder / "roles"
    steps.command("dump", dump_command(model, data, analysis.subset, max_tokens, dump))
    steps.command("roles", roles_command(dump, out, analysis.roles_options))
    return functions(read_json(out / "heads.json"))


def draw_figures(points: Path, out: Path) -> None:
    """``headprune figures`` on a folder of points; it says which pictures need more."""
    command = [sys.executable, "-m", "fairseq_headprune", "figures", "--points", str(points)]
    command += ["--out", str(out)]
    print(shown(command), flush=True)
    subprocess.run(command, env=commands.environment("", 1), check=False)
