#!/usr/bin/env bash
# Everything that needs a GPU, at most 8 minutes on one: half-precision training with gates, search,
# removal, relevance and dumps compared with the CPU's answers, then both benchmarks at base size.
# Prints one table. Usage: bash scripts/gpu_check.sh [JSON file to write]
set -eu
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
exec timeout 480 python scripts/device_check.py --device cuda --benchmarks base --repeats 5 \
  --out "${1:-gpu_check.json}"
