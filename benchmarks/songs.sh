#!/usr/bin/env bash
# Whole songs at full size, one measurement after the other: one song (and what diffusers would take) and sixteen, the
# precisions, caps that stand for smaller cards, and two GPUs where there are two. The checkpoint of random weights is
# written if it is not there.
# Usage: benchmarks/songs.sh FOLDER [SECONDS]       SECONDS of each song, 240 by default
set -eu
folder=$1 seconds=${2:-240}
cd "$(dirname "$0")/.."
[ -d "$folder" ] || python3 benchmarks/make_checkpoint.py "$folder"
bench() {
    echo "== $*"
    python3 -m music3_cli bench song --checkpoint "$folder" --seconds "$seconds" --no-peer "$@"
}
python3 -m music3_cli doctor --checkpoint "$folder"
bench --timeline "$folder.timeline.png" --peer
bench --precision fp16
bench --songs 16 --seconds 30
bench --songs 16 --seconds 30 --precision fp16
for gib in 24 16 12; do
    bench --seconds 30 --memory-limit $gib
done
bench --seconds 30 --placement swap
bench --seconds 30 --talker-weights int8
python3 benchmarks/int8.py --checkpoint "$folder"
if [ "$(python3 -c 'import torch; print(torch.cuda.device_count())')" -gt 1 ]; then
    bench --acoustic-device cuda:1
    bench --songs 16 --seconds 30 --acoustic-device cuda:0,cuda:1
    for where in same cuda:1; do
        python3 -m music3_cli render examples/morning-light.txt --checkpoint "$folder" --max-duration 20 \
            --acoustic-device $where -o "$folder.$where.wav" --on-exists overwrite --no-progress
    done
    cmp "$folder.same.wav" "$folder.cuda:1.wav" && echo "one GPU and two gave the same bytes"
fi
