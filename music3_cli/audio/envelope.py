"""A song's waveform as few numbers: the lowest and the highest sample of equal parts of it, gathered block by block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from music3_cli.audio.formats import READ_SAMPLES
from music3_cli.errors import InputError


class Envelope:
    """Gathers an envelope from a song's blocks.

    Args:
        samples: a channel, in all; what comes behind them counts to the last column.
        columns: parts of the song.

    Attributes:
        low, high: [C, columns]; infinite where no sample fell into a column.
        seen: samples a channel so far.
    """

    def __init__(self, samples: int, channels: int, columns: int) -> None:
        self._samples, self._columns = max(1, samples), columns
        self.low, self.high = np.full((channels, columns), np.inf), np.full((channels, columns), -np.inf)
        self.seen = 0

    def push(self, sound_CS: np.ndarray) -> None:
        """[C, n], finite."""
        count = sound_CS.shape[1]
        columns = np.minimum((self.seen + np.arange(count)) * self._columns // self._samples, self._columns - 1)
        starts = np.flatnonzero(np.diff(columns, prepend=-1))
        present = columns[starts]
        self.low[:, present] = np.minimum(self.low[:, present], np.minimum.reduceat(sound_CS, starts, 1))
        self.high[:, present] = np.maximum(self.high[:, present], np.maximum.reduceat(sound_CS, starts, 1))
        self.seen += count


def file_envelope(path: Path, columns: int) -> tuple[np.ndarray, float]:
    """A sound file's envelope over all channels together, and its length.

    Returns:
        [2, columns] lowest and highest samples, full scale 1, zero where a file has fewer samples than columns;
        seconds.

    Raises:
        InputError: missing, no sound file, empty or damaged.
    """
    try:
        with soundfile.SoundFile(path) as file:
            envelope, rate = Envelope(file.frames, file.channels, columns), file.samplerate
            for block_SC in file.blocks(READ_SAMPLES, dtype="float32", always_2d=True):
                envelope.push(np.nan_to_num(block_SC.T, nan=0.0, posinf=0.0, neginf=0.0))
    except (OSError, soundfile.LibsndfileError) as error:
        raise InputError(f"{path}: not a readable sound file ({error})") from None
    if not envelope.seen:
        raise InputError(f"{path}: no sound in it")
    extremes = np.stack((envelope.low.min(0), envelope.high.max(0)))
    return np.where(np.isfinite(extremes), extremes, 0.0), envelope.seen / rate
