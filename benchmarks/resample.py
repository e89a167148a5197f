"""The largest difference between streamed 32 kHz sound and torchaudio's resampling of the whole signal.

Usage: python3 benchmarks/resample.py [--every N]

White noise, sweeps and impulses, 1 to 10 s long, one sample less than, exactly, and one more than every Nth multiple of
441 samples, pushed in blocks of random sizes.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torchaudio

from music3_cli.audio.resample import Resampler
from music3_cli.cli.console import data

NATIVE, TARGET, PERIOD = 44_100, 32_000, 441


def signal(kind: str, samples: int, rng: np.random.Generator) -> np.ndarray:
    """[2, samples] float32."""
    if kind == "noise":
        return (0.3 * rng.standard_normal((2, samples))).astype(np.float32)
    if kind == "sweep":
        return np.stack([np.sin(np.cumsum(np.linspace(0, np.pi, samples)))] * 2).astype(np.float32)
    impulses = np.zeros((2, samples), np.float32)
    impulses[:, rng.integers(0, samples, 20)] = 1
    return impulses


def streamed(sound_CS: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    resampler, parts, start = Resampler(NATIVE, TARGET), [], 0
    while start < sound_CS.shape[1]:
        stop = start + int(rng.integers(1, 90_000))
        parts.append(resampler.push(sound_CS[:, start:stop]))
        start = stop
    return np.concatenate([*parts, resampler.finish()], 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=10)
    every = parser.parse_args().every
    rng, count, unequal, worst = np.random.default_rng(0), 0, 0, 0.0
    for periods in range(100, 1001, every):
        for more in (-1, 0, 1):
            for kind in ("noise", "sweep", "impulses"):
                sound_CS = signal(kind, periods * PERIOD + more, rng)
                whole = torchaudio.functional.resample(torch.from_numpy(sound_CS), NATIVE, TARGET).numpy()
                ours = streamed(sound_CS, rng)
                same_shape = ours.shape == whole.shape
                difference = float(np.abs(ours - whole).max()) if same_shape else float("inf")
                count, unequal, worst = count + 1, unequal + (difference != 0), max(worst, difference)
    data(f"{count} signals: {unequal} unequal, largest difference {worst:g}")


if __name__ == "__main__":
    main()
