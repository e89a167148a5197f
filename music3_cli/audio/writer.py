"""Writes a song as it comes: checked, resampled, brought to its level, encoded beside its final place, read back, and
renamed into it only when whole.

Without normalisation blocks go straight into the file. With it the level is known only at the end: the sound waits in a
file of float samples, never in memory, and is encoded from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from types import TracebackType
from typing import BinaryIO

import numpy as np
import soundfile

from music3_cli.audio.checks import FaultMeter, Faults
from music3_cli.audio.formats import Encoder, blank_peak_time, read_blocks, set_ogg_serial
from music3_cli.audio.levels import Gain, LevelMeter, Levels, decibels, gain_to
from music3_cli.audio.quantize import Words
from music3_cli.audio.resample import Resampler
from music3_cli.audio.tags import Tags, write_tags
from music3_cli.errors import OutputError, SongError
from music3_cli.files import file_sha256, partial_path
from music3_cli.song.delivery import TRUE_PEAK_CEILING, Delivery

SPOOL_SAMPLES = 2**16
FULL_DISK_BYTES = 2**20
LOSSY_TRIES = 4
LOSSY_MARGIN_DB = 0.05


@dataclass(frozen=True)
class WrittenAudio:
    """A whole file under its unfinished name.

    Attributes:
        samples: a channel.
        peak: largest absolute sample of the model's own sound.
        sha256: of the file.
        faults: found in the model's own sound, before anything was done to it.
        levels: of the sound at the file's rate, before `gain`.
        gain: what normalisation did; None without.
        limited: samples over full scale that the format could not hold.
    """

    samples: int
    sample_rate: int
    peak: float
    sha256: str
    faults: Faults
    levels: Levels
    gain: Gain | None
    limited: int

    @property
    def gain_db(self) -> float:
        return self.gain.db if self.gain else 0.0

    def warnings(self) -> list[str]:
        """A sentence for everything about the sound that a listener should be warned of."""
        found = self.faults.warnings() + ([] if self.limited else self.levels.warnings(self.gain_db))
        if self.gain and self.gain.note:
            found.append(self.gain.note)
        if self.limited:
            over = decibels(self.levels.sample_peak) + self.gain_db
            found.append(
                f"clipping: resampling put {self.limited} samples up to {over:.1f} dB over full scale, where they were "
                "cut off; use --normalize peak or --bit-depth float"
            )
        return found

    def to_json(self) -> dict[str, object]:
        """Levels of the file and what was done, for the sidecar."""
        content: dict[str, object] = dict(self.levels.to_json(self.gain_db))
        content["gain_db"] = self.gain_db
        if self.gain:
            content["gain_wanted_db"] = round(self.gain.wanted_db, 2)
        content["limited_samples"] = self.limited
        return content


class AudioWriter:
    """One stereo file that grows block by block.

    Use as a context manager: leaving it without `commit` removes the unfinished file.

    Args:
        path: the final place.
        native_rate: of the blocks that come, Hz.
        words: the song's random words for dither, from the first on, each time that it is called.

    Raises:
        OutputError: the folder or the disk does not take it.
        SongError: a block has NaN or infinite samples.
        UsageError: another rate was asked for and torchaudio is missing.
    """

    def __init__(
        self, path: Path, native_rate: int, delivery: Delivery, words: Callable[[], Words] | None = None
    ) -> None:
        self.path, self.delivery = path, delivery
        self._native_rate, self._words = native_rate, words
        self._partial = partial_path(path)
        self._spool_path = self._partial.with_name(f"{self._partial.name}.samples")
        self._resampler = None if delivery.sample_rate == native_rate else Resampler(native_rate, delivery.sample_rate)
        self._faults, self._levels = FaultMeter(native_rate), LevelMeter(delivery.sample_rate)
        self._samples, self._peak = 0, 0.0
        self._encoder: Encoder | None = None
        self._spool: BinaryIO | None = None
        with self._disk():
            path.parent.mkdir(parents=True, exist_ok=True)
            if delivery.normalization is None:
                self._encoder = self._new_encoder()
            else:
                self._spool = self._spool_path.open("wb")

    def __enter__(self) -> AudioWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def discard(self) -> None:
        """Close and remove the unfinished file; after `commit` there is none."""
        for file in (self._encoder, self._spool):
            if file is not None:
                with suppress(OSError, soundfile.LibsndfileError):  # what is thrown away need not be whole
                    file.close()
        self._spool_path.unlink(missing_ok=True)
        self._partial.unlink(missing_ok=True)

    def write(self, sound_CS: np.ndarray) -> None:
        """Append [2, samples] float32 at the native rate."""
        if not np.isfinite(sound_CS).all():
            where = (self._samples + int(np.argmin(np.isfinite(sound_CS).all(0)))) / self._native_rate
            raise SongError(
                f"the sound is not finite at {where:.2f} s",
                hint="The checkpoint may be damaged, or another precision is needed (--talker-dtype fp32).",
            )
        self._faults.push(sound_CS)
        self._samples += sound_CS.shape[1]
        self._peak = max(self._peak, float(np.abs(sound_CS).max(initial=0.0)))
        self._deliver(self._resampler.push(sound_CS) if self._resampler else sound_CS)

    def finish(self, tags: Tags | None = None) -> WrittenAudio:
        """Bring to its level, encode, label, close, and read everything back."""
        if self._resampler:
            self._deliver(self._resampler.finish())
        levels, gain = self._levels.finish(), None
        with self._disk():
            if self._spool is not None:
                self._spool.close()
                gain = self._encode_at_level(levels)
            assert self._encoder is not None
            self._encoder.close()
            if self.delivery.bit_depth == "float":
                blank_peak_time(self._partial)
            if tags is not None:
                write_tags(self._partial, self.delivery.format, tags)
            if self.delivery.format in ("ogg", "opus"):
                set_ogg_serial(self._partial, 1)
            self._encoder.check()
            with self._partial.open("rb") as stream:
                os.fsync(stream.fileno())
            digest = file_sha256(self._partial)
        return WrittenAudio(
            self._encoder.samples,
            self.delivery.sample_rate,
            self._peak,
            digest,
            self._faults.finish(),
            levels,
            gain,
            self._encoder.limited,
        )

    def commit(self) -> None:
        """Rename into place, replacing what is there."""
        with self._disk():
            self._partial.replace(self.path)

    def _deliver(self, sound_CS: np.ndarray) -> None:
        """At the file's rate: measure, then encode or put aside."""
        self._levels.push(sound_CS)
        with self._disk():
            if self._encoder is not None:
                self._encoder.write(sound_CS)
            elif self._spool is not None:
                self._spool.write(np.ascontiguousarray(sound_CS.T, np.float32).data)

    def _new_encoder(self) -> Encoder:
        return Encoder(self._partial, self.delivery, self._words() if self._words else None)

    def _encode_at_level(self, levels: Levels) -> Gain:
        """Encode what was put aside. A lossy encoder moves peaks, so its file is measured, and made again where its
        true peak passes the ceiling.
        """
        assert self.delivery.normalization is not None
        gain = gain_to(self.delivery.normalization, levels)
        for _ in range(LOSSY_TRIES):
            self._encoder = self._new_encoder()
            for block in self._spooled():
                self._encoder.write(block * np.float32(gain.factor))
            self._encoder.close()
            over = self._over_ceiling() if self.delivery.bit_depth is None else 0.0
            if over <= 0 or gain.db == 0 == gain.wanted_db:
                break
            lower = float(np.floor((gain.db - over - LOSSY_MARGIN_DB) * 100) / 100)
            gain = Gain(lower, gain.wanted_db, gain.note)
        self._spool_path.unlink()
        return gain

    def _spooled(self) -> Iterator[np.ndarray]:
        with self._spool_path.open("rb") as stream:
            while data := stream.read(SPOOL_SAMPLES * 2 * 4):
                yield np.frombuffer(data, np.float32).reshape(-1, 2).T

    def _over_ceiling(self) -> float:
        """dB by which the encoded file's true peak passes the ceiling."""
        meter = LevelMeter(self.delivery.sample_rate)
        for block in read_blocks(self._partial):
            meter.push(block)
        return meter.finish().true_peak_db - TRUE_PEAK_CEILING

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Errors of files as ours, with the song's final name."""
        from mutagen import MutagenError

        try:
            yield
        except OutputError as error:
            raise OutputError(f"{self.path}: {error.message}", hint=error.hint) from None
        except (OSError, soundfile.LibsndfileError, MutagenError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if isinstance(error, soundfile.LibsndfileError) and disk_usage(self._partial.parent).free < FULL_DISK_BYTES:
                reason = "no space left on the disk"  # libsndfile says "System error" and no more
            raise OutputError(
                f"{self.path}: cannot be written ({reason})",
                hint="Check permissions and free space, or choose another -o.",
            ) from None
