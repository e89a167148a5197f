#!/usr/bin/env bash
# The gpu tier of the tests, on a machine with a CUDA device and the project's test dependencies installed.
set -eu
cd "$(dirname "$0")/.."
exec python3 -m pytest -q -m gpu "$@"
