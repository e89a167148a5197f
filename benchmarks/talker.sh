#!/usr/bin/env bash
# The talker's step at full size; ours and diffusers' in one run.
# Usage: benchmarks/talker.sh CHECKPOINT
set -eu
cd "$(dirname "$0")/.."
python3 -m music3_cli bench talker --checkpoint "$1" --songs 1 --contexts 500,2000,8000 --peer
python3 -m music3_cli bench talker --checkpoint "$1" --songs 4,8,16 --contexts 2000,4000 --no-peer
python3 -m music3_cli bench talker --checkpoint "$1" --songs 1 --contexts 2000 --no-cuda-graph --no-peer
