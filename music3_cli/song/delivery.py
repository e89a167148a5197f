"""How a song is delivered: format, bit depth, rate, level and dither. Names and rules; `audio/` carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from music3_cli.errors import UsageError
from music3_cli.song.settings import Sourced

NATIVE_RATE = 44_100
"""The model's own sample rate, Hz."""

TRUE_PEAK_CEILING = -1.0
"""dBTP that a normalised song stays under (EBU R128, ITU-R BS.1770)."""

DEFAULT_QUALITY = 8.0


@dataclass(frozen=True)
class FileFormat:
    """One format.

    Attributes:
        endings: file name endings, the usual one first.
        bit_depths: what it can hold, the default first; empty for lossy formats.
        rates: sample rates, the default first.
    """

    name: str
    endings: tuple[str, ...]
    bit_depths: tuple[str, ...]
    rates: tuple[int, ...] = (NATIVE_RATE, 32_000)

    @property
    def is_lossy(self) -> bool:
        return not self.bit_depths


FORMATS: Mapping[str, FileFormat] = {
    format.name: format
    for format in (
        FileFormat("wav", ("wav", "wave"), ("16", "24", "float")),
        FileFormat("flac", ("flac",), ("16", "24")),
        FileFormat("mp3", ("mp3",), ()),
        FileFormat("ogg", ("ogg", "oga"), ()),
        FileFormat("opus", ("opus",), (), (48_000,)),  # Opus has no 44 100 and no 32 000 Hz
    )
}
ENDINGS: Mapping[str, str] = {ending: format.name for format in FORMATS.values() for ending in format.endings}
"""File name ending -> format."""


@dataclass(frozen=True)
class Normalization:
    """A level to bring a song to.

    Attributes:
        mode: `peak` or `loudness`.
        target: dBTP, or LUFS.
    """

    mode: str
    target: float

    @classmethod
    def parse(cls, text: str) -> Normalization | None:
        """From a setting's value such as `loudness=-14`; None for `none`."""
        mode, _, target = text.partition("=")
        return None if mode == "none" else cls(mode, float(target))


@dataclass(frozen=True)
class Delivery:
    """One song's file. Fields that do not apply to the format are None, so that equal files have equal keys.

    Attributes:
        format: a key of `FORMATS`.
        bit_depth: `16`, `24` or `float`; None for lossy formats.
        quality: 0 (smallest) to 10 (best); None for lossless formats.
        sample_rate: Hz.
        normalize: `none`, `peak=<dBTP>` or `loudness=<LUFS>`.
        dither: whether rounding is dithered; None where nothing is rounded by us.
    """

    format: str = "wav"
    bit_depth: str | None = "16"
    quality: float | None = None
    sample_rate: int = NATIVE_RATE
    normalize: str = "none"
    dither: bool | None = True

    @property
    def normalization(self) -> Normalization | None:
        return Normalization.parse(self.normalize)

    @property
    def bits(self) -> int | None:
        """Bits of an integer sample; None for float and lossy formats."""
        return int(self.bit_depth) if self.bit_depth in ("16", "24") else None

    def audio_settings(self) -> dict[str, object]:
        """What of it the file's samples depend on: all."""
        return {
            "format": self.format,
            "bit_depth": self.bit_depth,
            "quality": self.quality,
            "sample_rate": self.sample_rate,
            "normalize": self.normalize,
            "dither": self.dither,
        }


def make_delivery(settings: Mapping[str, Sourced[Any]], ending: str | None) -> Delivery:
    """Put a song's settings and its file's ending together.

    Args:
        settings: with format, bit_depth, quality, sample_rate, normalize and dither.
        ending: the output name's own ending without the dot, or None where the ending follows from the format.

    Raises:
        UsageError: settings that contradict each other or the ending.
    """
    wanted = settings["format"]
    if ending is not None and wanted.value is not None and ENDINGS[ending] != wanted.value:
        raise UsageError(
            f"{wanted.source} {wanted.value}: the output's ending .{ending} means {ENDINGS[ending]}",
            hint="Leave one of them out, or end the output in .{ext}.",
        )
    format = FORMATS[wanted.value or ENDINGS[ending or "wav"]]
    depth, quality, rate = settings["bit_depth"], settings["quality"], settings["sample_rate"]
    if depth.value is not None and depth.value not in format.bit_depths:
        takes = f"one of {', '.join(format.bit_depths)} was expected" if format.bit_depths else "it is lossy: --quality"
        raise UsageError(f"{depth.source} {depth.value}: {format.name} has no such bit depth; {takes}")
    if quality.value is not None and not format.is_lossy:
        raise UsageError(
            f"{quality.source} {quality.value:g}: {format.name} loses nothing; quality is for "
            f"{', '.join(name for name, other in FORMATS.items() if other.is_lossy)}"
        )
    if rate.value is not None and rate.value not in format.rates:
        raise UsageError(
            f"{rate.source} {rate.value}: {format.name} is written at {' or '.join(map(str, format.rates))} Hz",
            hint="Leave the sample rate out, or choose another format.",
        )
    bit_depth = None if format.is_lossy else depth.value or format.bit_depths[0]
    return Delivery(
        format=format.name,
        bit_depth=bit_depth,
        quality=(DEFAULT_QUALITY if quality.value is None else quality.value) if format.is_lossy else None,
        sample_rate=rate.value or format.rates[0],
        normalize=settings["normalize"].value,
        dither=settings["dither"].value if bit_depth in ("16", "24") else None,
    )
