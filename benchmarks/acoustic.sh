#!/usr/bin/env bash
# The acoustic stage at full size, ours and diffusers' in one run.
# Usage: benchmarks/acoustic.sh CHECKPOINT
set -eu
cd "$(dirname "$0")/.."
python3 -m music3_cli bench acoustic --checkpoint "$1" --variants
python3 benchmarks/peer_acoustic.py "$1" 2>/dev/null
