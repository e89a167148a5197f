"""Writes a song as it comes: beside its final place, checked, and renamed into it only when whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import soundfile

from music3_cli.errors import OutputError, SongError
from music3_cli.files import file_sha256

SUBTYPES = {"16": "PCM_16", "float": "FLOAT"}
PARTIAL_PREFIX = ".music3-"
"""Unfinished files begin so; none of them is ever taken for a song."""


@dataclass(frozen=True)
class WrittenAudio:
    """A whole file under its unfinished name.

    Attributes:
        samples: a channel.
        peak: largest absolute sample before rounding.
        sha256: of the file.
    """

    samples: int
    sample_rate: int
    peak: float
    sha256: str


class AudioWriter:
    """A stereo WAV file that grows block by block.

    Use as a context manager: leaving it without `commit` removes the unfinished file.

    Raises:
        OutputError: the folder or the disk does not take it.
        SongError: a block has NaN or infinite samples.
    """

    def __init__(self, path: Path, sample_rate: int, bit_depth: str) -> None:
        self.path, self.sample_rate = path, sample_rate
        self._partial = path.with_name(f"{PARTIAL_PREFIX}{os.getpid()}-{path.name}")
        self._samples, self._peak = 0, 0.0
        self._subtype = SUBTYPES[bit_depth]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = soundfile.SoundFile(
                self._partial, "w", samplerate=sample_rate, channels=2, format="WAV", subtype=self._subtype
            )
        except (OSError, soundfile.LibsndfileError) as error:
            raise _not_writable(path, error) from None

    def __enter__(self) -> AudioWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, sound_CS: np.ndarray) -> None:
        """Append [2, samples] float32 in [-1, 1]."""
        if not np.isfinite(sound_CS).all():
            where = (self._samples + int(np.argmin(np.isfinite(sound_CS).all(0)))) / self.sample_rate
            raise SongError(
                f"the sound is not finite at {where:.2f} s",
                hint="The checkpoint may be damaged, or another precision is needed (--talker-dtype fp32).",
            )
        try:
            self._file.write(sound_CS.T)
        except (OSError, soundfile.LibsndfileError) as error:
            raise _not_writable(self.path, error) from None
        self._samples += sound_CS.shape[1]
        self._peak = max(self._peak, float(np.abs(sound_CS).max(initial=0.0)))

    def finish(self) -> WrittenAudio:
        """Close the file, open it again and check that everything is in it."""
        try:
            self._file.close()
            if self._subtype == "FLOAT":
                _blank_peak_time(self._partial)
            info = soundfile.info(self._partial)
            with self._partial.open("rb") as stream:
                os.fsync(stream.fileno())
            digest = file_sha256(self._partial)
        except (OSError, soundfile.LibsndfileError) as error:
            raise _not_writable(self.path, error) from None
        if (info.frames, info.channels, info.samplerate) != (self._samples, 2, self.sample_rate):
            raise OutputError(f"{self.path}: {info.frames} samples came to disk, {self._samples} were written")
        return WrittenAudio(self._samples, self.sample_rate, self._peak, digest)

    def commit(self) -> None:
        """Rename into place, replacing what is there."""
        try:
            self._partial.replace(self.path)
        except OSError as error:
            raise _not_writable(self.path, error) from None


def _blank_peak_time(path: Path) -> None:
    """libsndfile puts the time of day into the PEAK chunk of float files; equal songs would differ by it."""
    with path.open("r+b") as stream:
        head = stream.read(4096)
        at = head.find(b"PEAK")
        if at >= 0:
            stream.seek(at + 12)  # behind the chunk's name, size and version
            stream.write(bytes(4))


def _not_writable(path: Path, error: Exception) -> OutputError:
    reason = getattr(error, "strerror", None) or str(error)
    return OutputError(
        f"{path}: cannot be written ({reason})", hint="Check permissions and free space, or choose another -o."
    )
