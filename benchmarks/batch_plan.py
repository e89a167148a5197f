"""Time and memory of planning big manifests: `music3 batch --dry-run` over JSON lines with the demo's tokenizer.

python benchmarks/batch_plan.py 1000 10000
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PRESETS = ("neo-soul", "slow-blues", "city-pop", "default")
WORDS = (
    "[verse]\nThe last ferry leaves with its windows aglow\nA coat on each chair and a cat down below, number {}\n\n"
    "[chorus]\nCarry them over, carry them slow\nSomebody is waiting where the street lamps show\n\n[outro]\n"
)


def measure(songs: int, folder: Path) -> tuple[float, float]:
    """Seconds and MiB (peak) of one dry run."""
    manifest = folder / f"{songs}.jsonl"
    with manifest.open("w", encoding="utf-8") as stream:
        for number in range(songs):
            song = {"id": f"song-{number:06d}", "lyrics_text": WORDS.format(number), "seed": number}
            song |= {"preset": PRESETS[number % len(PRESETS)], "max_duration": 60}
            stream.write(json.dumps(song) + "\n")
    command = [sys.executable, "-m", "music3_cli", "batch", str(manifest), "--checkpoint", "demo", "--dry-run"]
    started = time.perf_counter()
    process = subprocess.Popen([*command, "-o", str(folder / "out")], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def main() -> None:
    counts = [int(text) for text in sys.argv[1:]] or [1, 1000, 10_000]
    with tempfile.TemporaryDirectory() as work:
        for songs in counts:
            seconds, mib = measure(songs, Path(work))
            sys.stdout.write(f"{songs} songs: {seconds:.1f} s, peak {mib:.0f} MiB\n")


if __name__ == "__main__":
    main()
