# Sourced by demo.sh and test.sh: makes the virtual environment .venv beside this checkout, with the
# pinned versions, and activates it. A second call finds it ready. Set HEADPRUNE_PYTHON to the python
# of an environment of your own to use that instead.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ -n "${HEADPRUNE_PYTHON:-}" ]; then
    PATH="$(cd "$(dirname "$HEADPRUNE_PYTHON")" && pwd):$PATH"
    export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"  # the package need not be installed there
else
    stamp="$root/.venv/installed"
    wanted=$(cat "$root/setup.py" "$root/constraints.txt" | cksum)
    if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
        echo "setting up $root/.venv (once, a few minutes) ..." >&2
        "${PYTHON:-python3}" -m venv "$root/.venv"
        pip="$root/.venv/bin/python -m pip --disable-pip-version-check"
        $pip install -q -c "$root/constraints.txt" setuptools wheel
        # torch alone first: other packages' open ranges must not choose its version
        $pip install -q -c "$root/constraints.txt" torch
        $pip install -q -c "$root/constraints.txt" -e "$root[analysis,parse,deploy,dev]"
        echo "$wanted" > "$stamp"
    fi
    PATH="$root/.venv/bin:$PATH"
fi
export PATH
