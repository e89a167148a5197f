"""Measures a finished sound file, whoever made it, in one pass and bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from music3_cli.audio.checks import FaultMeter, Faults
from music3_cli.audio.formats import READ_SAMPLES
from music3_cli.audio.levels import LevelMeter, Levels
from music3_cli.errors import InputError, system_errors_as


@dataclass(frozen=True)
class SongFile:
    """What a file is and what was measured of it.

    Attributes:
        container, subtype: libsndfile's names.
        declared_samples: a channel, by the file's header; `samples` of `faults` is what could be read.
    """

    path: Path
    container: str
    subtype: str
    sample_rate: int
    channels: int
    declared_samples: int
    faults: Faults
    levels: Levels

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "format": self.container,
            "subtype": self.subtype,
            "sample_rate": self.sample_rate,
            "channels": self.channels,
            "samples": self.faults.samples,
            "seconds": round(self.faults.seconds, 6),
            "levels": self.levels.to_json(),
            "checks": self.faults.to_json(),
        }


@system_errors_as(InputError)
def measure_file(path: Path, watch: Callable[[np.ndarray], None] | None = None) -> SongFile:
    """Read and measure.

    Args:
        watch: sees every block, [C, n] float32 with what is not finite put to zero.

    Raises:
        InputError: missing, no sound file, empty, damaged, or of a kind that cannot be measured.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file" if not path.exists() else f"{path}: is not a file")
    try:
        with soundfile.SoundFile(path) as file:
            rate, channels, declared = file.samplerate, file.channels, file.frames
            if channels not in (1, 2):
                raise InputError(f"{path}: {channels} channels; 1 or 2 were expected")
            if rate < 8000 or rate % 10:
                raise InputError(f"{path}: {rate} Hz; a sample rate from 8000 in steps of 10 was expected")
            faults, levels = FaultMeter(rate, channels), LevelMeter(rate, channels)
            for block_SC in file.blocks(READ_SAMPLES, dtype="float32", always_2d=True):
                faults.push(block_SC.T)
                finite_CS = np.nan_to_num(block_SC.T, nan=0.0, posinf=0.0, neginf=0.0)
                levels.push(finite_CS)
                if watch is not None:
                    watch(finite_CS)
            found = faults.finish()
            if not found.samples:
                raise InputError(f"{path}: no sound in it")
            return SongFile(path, file.format, file.subtype, rate, channels, declared, found, levels.finish())
    except (OSError, soundfile.LibsndfileError) as error:
        raise InputError(f"{path}: not a readable sound file ({error})") from None
