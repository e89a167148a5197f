#!/usr/bin/env bash
# Writes a full-size checkpoint of random weights (28.5 GB) into FOLDER if it is not there, and renders 20 s from it
# twice: the second run reads the weights from the page cache, and its file must be the same bytes.
# Usage: benchmarks/first_song.sh FOLDER
set -eu
folder=$1
cd "$(dirname "$0")/.."
[ -d "$folder" ] || python3 benchmarks/make_checkpoint.py "$folder"
for run in first second; do
    python3 -m music3_cli render examples/morning-light.txt --checkpoint "$folder" --max-duration 20 \
        -o "$folder.$run.wav" --on-exists overwrite --no-progress
done
python3 -m music3_cli inspect checkpoint "$folder"
sha256sum "$folder".*.wav
cmp "$folder.first.wav" "$folder.second.wav" && echo "both runs gave the same bytes"
