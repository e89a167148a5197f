"""Deliveries to files through libsndfile: what it is told, what it can write, and reading a file back."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from music3_cli.audio.quantize import Quantizer, Words
from music3_cli.errors import OutputError, UsageError
from music3_cli.song.delivery import Delivery

CONTAINERS = {"wav": "WAV", "flac": "FLAC", "mp3": "MP3", "ogg": "OGG", "opus": "OGG"}
SUBTYPES = {
    ("wav", "16"): "PCM_16",
    ("wav", "24"): "PCM_24",
    ("wav", "float"): "FLOAT",
    ("flac", "16"): "PCM_16",
    ("flac", "24"): "PCM_24",
    ("mp3", None): "MPEG_LAYER_III",
    ("ogg", None): "VORBIS",
    ("opus", None): "OPUS",
}
BEST, SMALLEST = {"mp3": 0.0, "ogg": 0.0, "opus": 0.5}, 0.95
"""libsndfile's compression levels at quality 10 and 0: at best about 245, 490 and 256 kbit/s. At 0 it gives Opus 510
kbit/s, of which nobody hears a thing; at 1 its encoders refuse or ruin the sound.
"""

WAV_LIMIT_BYTES = 2**32 - 2**20
"""A WAV file counts its bytes in 32 bits; a mebibyte is left for header and tags."""

READ_SAMPLES = 2**16


def check_writable(format: str) -> None:
    """Raise `UsageError` where the installed libsndfile cannot write the format."""
    subtypes = [subtype for (name, _), subtype in SUBTYPES.items() if name == format]
    if not set(subtypes) <= set(soundfile.available_subtypes(CONTAINERS[format])):
        raise UsageError(
            f"format {format}: the installed libsndfile {soundfile.__libsndfile_version__} cannot write it",
            hint="Install a newer soundfile (pip install -U soundfile), or choose wav or flac.",
        )


class Encoder:
    """Writes one file, block by block, and knows what must be read back.

    Args:
        path: made or replaced.
        words: random words for dither, or None; used only where the delivery rounds with dither.

    Attributes:
        samples: a channel, so far.
        limited: samples over full scale so far, which the format cannot hold and which were cut off; all channels.

    Raises:
        OSError, soundfile.LibsndfileError: the folder or the disk does not take it.
    """

    def __init__(self, path: Path, delivery: Delivery, words: Words | None) -> None:
        self.path, self.delivery = path, delivery
        self.samples, self.limited = 0, 0
        bits = delivery.bits
        self._quantizer = Quantizer(bits, words if delivery.dither else None) if bits else None
        self._type = "float32" if bits is None else "int16" if bits == 16 else "int32"
        self._checksum = 0
        lossy: dict[str, Any] = {}
        if delivery.quality is not None:
            lossy["compression_level"] = BEST[delivery.format] + (SMALLEST - BEST[delivery.format]) * (
                1 - delivery.quality / 10
            )
        if delivery.format == "mp3":
            lossy["bitrate_mode"] = "VARIABLE"
        self._file = soundfile.SoundFile(
            path,
            "w",
            samplerate=delivery.sample_rate,
            channels=2,
            format=CONTAINERS[delivery.format],
            subtype=SUBTYPES[delivery.format, delivery.bit_depth],
            **lossy,
        )

    def write(self, sound_CS: np.ndarray) -> None:
        """Append [2, n] float samples.

        Raises:
            OutputError: a WAV file would pass 4 GB.
        """
        if self.delivery.bit_depth != "float":  # which alone can hold more than full scale
            self.limited += int(np.count_nonzero(np.abs(sound_CS) > 1.0))
            sound_CS = sound_CS.clip(-1.0, 1.0)
        block = self._quantizer(sound_CS) if self._quantizer else np.ascontiguousarray(sound_CS.T, np.float32)
        self.samples += len(block)
        if self.delivery.format == "wav" and self.samples * 2 * (self.delivery.bits or 32) // 8 > WAV_LIMIT_BYTES:
            raise OutputError(
                f"{self.path.name}: more than 4 GB, which a WAV file cannot hold", hint="Use --format flac."
            )
        self._checksum = zlib.crc32(block.data, self._checksum)
        self._file.write(block)

    def close(self) -> None:
        self._file.close()

    def check(self) -> None:
        """Read the closed file from beginning to end: the length for every format, every sample for lossless ones.

        Raises:
            OutputError: it is not what was written.
        """
        samples, checksum = 0, 0
        with soundfile.SoundFile(self.path) as file:
            found = (file.samplerate, file.channels)
            for block in file.blocks(READ_SAMPLES, dtype=self._type, always_2d=True):
                samples += len(block)
                checksum = zlib.crc32(np.ascontiguousarray(block).data, checksum)
        if found != (self.delivery.sample_rate, 2) or samples != self.samples:
            raise OutputError(
                f"{samples} samples at {found[0]} Hz in {found[1]} channels came to disk; {self.samples} at "
                f"{self.delivery.sample_rate} Hz in 2 were written"
            )
        if self.delivery.bit_depth is not None and checksum != self._checksum:
            raise OutputError("the samples on disk are not those that were written")


def read_blocks(path: Path) -> Iterator[np.ndarray]:
    """[C, n] float32 blocks of a file, in order."""
    with soundfile.SoundFile(path) as file:
        for block in file.blocks(READ_SAMPLES, dtype="float32", always_2d=True):
            yield np.ascontiguousarray(block.T)


def blank_peak_time(path: Path) -> None:
    """libsndfile puts the time of day into the PEAK chunk of float files; equal songs would differ by it."""
    with path.open("r+b") as stream:
        head = stream.read(4096)
        at = head.find(b"PEAK")
        if at >= 0:
            stream.seek(at + 12)  # behind the chunk's name, size and version
            stream.write(bytes(4))


def set_ogg_serial(path: Path, serial: int) -> None:
    """Give an Ogg file's stream a fixed serial number: libsndfile draws one, and equal songs would differ by it."""
    from mutagen.ogg import OggPage

    partial = path.with_name(path.name + ".pages")
    with path.open("rb") as source, partial.open("wb") as target:
        while True:
            try:
                page = OggPage(source)
            except EOFError:
                break
            page.serial = serial
            target.write(page.write())
    partial.replace(path)
