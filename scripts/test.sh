#!/usr/bin/env bash
# Set up what the tests need and run all of them; arguments go to pytest.
set -eu
. "$(dirname "$0")/setup_env.sh"
cd "$root"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec python -m pytest -q "${@:-tests}"
