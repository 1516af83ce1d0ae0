"""One finished step, one small file: how an interrupted sweep knows where to go on."""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_headprune.base import files
from fairseq_headprune.base.errors import UserError


def write_json(data: Any, path: Path) -> None:
    """Write JSON whole or not at all."""
    text = json.dumps(data, indent=1, ensure_ascii=False)
    # lists of numbers, such as the heads of a layer, on one line each (no text has a bare line feed)
    text = re.sub(r"\[\n[\s\d,]*\]", lambda m: "[" + " ".join(m[0][1:-1].split()) + "]", text)
    files.write_text(path, text + "\n")


def read_json(path: Path) -> Any:
    """Parsed JSON file; UserError when it is none."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def shown(command: list[str]) -> str:
    """The command as one can paste it into a shell."""
    return shlex.join(str(part) for part in command)


class Steps:
    """The steps of one run folder. ``FOLDER/steps/NAME.json`` says that a step is finished, what
    it did and how long it took."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None):
        self.folder = Path(folder)
        self.environment = environment

    def _file(self, name: str) -> Path:
        return self.folder / "steps" / f"{name}.json"

    def finished(self, name: str, what: Any) -> bool:
        """Whether step ``name`` was finished before; UserError when it did something else then."""
        if not self._file(name).exists():
            return False
        before = read_json(self._file(name)).get("what")
        if before != what:
            raise UserError(
                f"{self.folder} holds step '{name}' of a sweep with other options: choose another "
                "--out folder, or remove this one to run it again"
            )
        return True

    def finish(self, name: str, what: Any, seconds: float) -> None:
        """Note that a step is finished. ``seconds`` of earlier, interrupted attempts are not known."""
        write_json({"what": what, "seconds": round(seconds, 1)}, self._file(name))

    def command(self, name: str, command: list[str], output: str = "") -> None:
        """Run a command once. What it prints goes to ``NAME.log``, its standard output to the file
        ``output`` of the folder where that is named.

        UserError when it fails; what it printed stays for reading.
        """
        command = [str(part) for part in command]
        if self.finished(name, command):
            return
        log = self.folder / f"{name}.log"
        print(f"[{self.folder.name}] {name}: {shown(command)}", flush=True)
        start = time.monotonic()
        with files.writing(log):
            err = open(log, "w", encoding="utf-8")
            out = open(self.folder / output, "w", encoding="utf-8") if output else err
        with err, out:
            status = subprocess.run(
                command, stdout=out, stderr=err, env=self.environment, stdin=subprocess.DEVNULL
            ).returncode
        if status:
            raise UserError(f"step '{name}' of {self.folder} failed with status {status}: see {log}")
        self.finish(name, command, time.monotonic() - start)

    def seconds(self) -> dict[str, float]:
        """Seconds per finished step."""
        files = sorted((self.folder / "steps").glob("*.json"))
        return {f.stem: read_json(f)["seconds"] for f in files}
