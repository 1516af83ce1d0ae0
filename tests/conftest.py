"""Paths that tests share. `shared` is the folder of reference material beside a developer's
checkout; a user does not have it, and tests that need it are skipped with the reason."""

import os
from pathlib import Path

import pytest

import fairseq_headprune

fairseq_headprune.register()

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    path = Path(os.environ.get("HEADPRUNE_SHARED", ROOT.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"needs the reference material in {path} (set HEADPRUNE_SHARED)")
    return path
