#!/usr/bin/env bash
# Set up what the tests need and run them on both cores; arguments go to pytest.
#   bash scripts/test.sh            ruff, mypy and all tests
#   bash scripts/test.sh --fast     the fast lane: unit tests alone
set -eu
. "$(dirname "$0")/setup_env.sh"
cd "$root"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
if [ $# -eq 0 ]; then  # the whole of it: style and types first, they take seconds
    ruff check .
    mypy
elif [ "$1" = --fast ]; then
    shift
    set -- tests/unit "$@"
fi
exec python -m pytest -q -n "${HEADPRUNE_TEST_WORKERS:-2}" --dist worksteal "${@:-tests}"
