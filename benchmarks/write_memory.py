"""Memory while a six-minute song is written: peak resident memory above what stood before the first window.

    python benchmarks/write_memory.py [--seconds 360]

Synthetic windows of the model's size go through the writer as during a render: at the model's rate, resampled,
normalised, and in a lossy format. Linux only (reads /proc).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from music3_cli.audio.tags import Tags
from music3_cli.audio.writer import AudioWriter
from music3_cli.cli import console
from music3_cli.randomness import dither_words
from music3_cli.song.delivery import NATIVE_RATE, Delivery

WINDOW_SAMPLES = 345 * 512
DELIVERIES = {
    "wav 16, 44 100 Hz": Delivery(),
    "wav 16, 32 000 Hz": Delivery(sample_rate=32_000),
    "wav 16, 32 000 Hz, loudness -14": Delivery(sample_rate=32_000, normalize="loudness=-14"),
    "wav float, 44 100 Hz, loudness -14": Delivery(bit_depth="float", dither=None, normalize="loudness=-14"),
    "flac 24, 44 100 Hz, loudness -14": Delivery("flac", "24", normalize="loudness=-14"),
    "mp3, 32 000 Hz, loudness -14": Delivery("mp3", None, 8.0, 32_000, "loudness=-14", None),
}


def status(name: str) -> float:
    """A field of this process's status, MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1000


def write(path: Path, delivery: Delivery, windows: int) -> None:
    rng = np.random.default_rng(0)
    with AudioWriter(path, NATIVE_RATE, delivery, lambda: dither_words(0)) as writer:
        for _ in range(windows):
            writer.write((0.1 * rng.standard_normal((2, WINDOW_SAMPLES))).clip(-1, 1).astype(np.float32))
        writer.finish(Tags(title="memory"))
        writer.commit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=360)
    windows = round(parser.parse_args().seconds * NATIVE_RATE / WINDOW_SAMPLES)
    megabytes = WINDOW_SAMPLES * 2 * 4 / 1e6
    console.data(f"{windows} windows of {megabytes:.1f} MB, {windows * megabytes:.0f} MB of float samples in all")
    with tempfile.TemporaryDirectory() as folder:
        for name, delivery in DELIVERIES.items():
            path = Path(folder, f"song.{delivery.format}")
            write(path, delivery, 3)  # libraries, kernels and the allocator's first pages
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts from now on
            before = status("VmRSS")
            write(path, delivery, windows)
            console.data(
                f"{name:36s} peak {status('VmHWM') - before:6.1f} MB above {before:.0f} MB, "
                f"file {path.stat().st_size / 1e6:.0f} MB"
            )


if __name__ == "__main__":
    main()
