#!/usr/bin/env bash
# What RESULTS.md says of the H200 and a change of kernels or scheduling can move, part by part: each writes its output
# to OUT/PART.txt, too, and says how long it took. A part that fails does not end the others; the script then ends with 1.
# Usage: benchmarks/h200.sh FOLDER OUT [PART...]     FOLDER: of the checkpoint of random weights, written if not there
#   tests      the gpu tier, on several processes                         about 2 minutes
#   talker     the step of one and sixteen songs, and diffusers'          1
#   holds      what must hold at full size: graph = eager, slots, length  3
#   acoustic   a window in each precision, and diffusers'                 2
#   song       one song of 240 s, TF32 and fp16                           3
#   sixteen    sixteen songs of 16 s, TF32 and fp16                       2
set -u
cd "$(dirname "$0")/.." || exit
folder=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- tests talker holds acoustic song sixteen
[ -d "$folder" ] || python3 benchmarks/make_checkpoint.py "$folder" >/dev/null || exit 1
music3() { python3 -m music3_cli "$@"; }

tests() { benchmarks/gpu_tests.sh -n 6 -rf tests/gpu; }
talker() { benchmarks/talker.sh "$folder"; }
holds() { python3 benchmarks/talker_full.py "$folder" --frames 500; }
acoustic() { music3 bench acoustic --checkpoint "$folder" --peer; }
songs() { # twice, with the flags given
    for precision in tf32 fp16; do
        echo "-- $precision"
        music3 bench song --checkpoint "$folder" --precision "$precision" --no-peer "$@" || return
    done
}
song() { songs; }
sixteen() { songs --songs 16 --seconds 16; }

failed=0
for part; do
    case $part in tests | talker | holds | acoustic | song | sixteen) ;; *) echo "no part $part" >&2 && exit 2 ;; esac
done
for part; do
    echo "== $part"
    SECONDS=0
    ( $part ) 2>&1 | tee "$out/$part.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || { failed=1 && echo "== $part FAILED"; }
    echo "== $part: $SECONDS s"
done
exit $failed
