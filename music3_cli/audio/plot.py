"""A song as one picture: waveform, spectrogram, loudness, where its windows join, and what the checks found.

Gathered block by block in bounded memory; drawn with matplotlib, an optional dependency (`music3[plot]`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from music3_cli.audio.envelope import Envelope
from music3_cli.audio.inspection import SongFile
from music3_cli.audio.levels import SHORT_TERM_HOPS
from music3_cli.errors import OutputError, UsageError
from music3_cli.song.limits import clock

COLUMNS = 1600
FFT = 4096
LOWEST_HZ = 30.0
RANGE_DB = 90.0
_ROWS = 360

_LEFT, _RIGHT, _SEAM, _FAULT = "#2f6f9f", "#a2583b", "#555555", "#d62728"


def check_plottable(flag: str, path: Path, *endings: str) -> None:
    """Everything that could keep a picture from being drawn, found before minutes of work for it.

    Raises:
        UsageError: matplotlib is missing, or the file has none of these endings.
        OutputError: there is no such folder.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            f"{flag} needs matplotlib, which is not installed", hint=f"pip install 'music3[plot]', or leave {flag} out."
        ) from None
    if path.suffix.lower() not in endings:
        raise UsageError(f"{flag} {path}: a file name ending in {' or '.join(endings)} was expected")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"{flag} {path}: there is no folder {path.parent}")


class Sketch:
    """Gathers a picture's numbers from a song's blocks.

    Args:
        samples: a channel, in all.
    """

    def __init__(self, samples: int, channels: int) -> None:
        self._samples = max(1, samples)
        self.envelope = Envelope(samples, channels, COLUMNS)
        self.power = np.zeros((COLUMNS, FFT // 2 + 1))
        self._counts = np.zeros(COLUMNS)
        self._window = np.hanning(FFT)
        self._rest, self._rest_at = np.zeros(FFT // 2), -FFT // 2

    def push(self, sound_CS: np.ndarray) -> None:
        """[C, n]."""
        self.envelope.push(sound_CS)
        self._add_spectra(np.concatenate((self._rest, sound_CS.mean(0))))

    def _add_spectra(self, held: np.ndarray) -> None:
        hop = FFT // 4
        count = max(0, (len(held) - FFT) // hop + 1)
        if count:
            frames = np.lib.stride_tricks.sliding_window_view(held, FFT)[::hop][:count]
            power = np.square(np.abs(np.fft.rfft(frames * self._window, axis=1)) / (FFT / 4))
            middles = self._rest_at + FFT // 2 + hop * np.arange(count)
            columns = np.clip(middles * COLUMNS // self._samples, 0, COLUMNS - 1)
            np.add.at(self.power, columns, power)
            np.add.at(self._counts, columns, 1)
        self._rest, self._rest_at = held[count * hop :], self._rest_at + count * hop

    def spectrogram(self, rate: int) -> np.ndarray:
        """[rows, columns] dB below a full-scale sine, rows evenly spaced in log frequency from low to high."""
        self._add_spectra(np.concatenate((self._rest, np.zeros(FFT))))
        known = np.flatnonzero(self._counts)
        # A short song has fewer spectra than columns: each column shows its nearest one.
        nearest = known[np.abs(known[:, None] - np.arange(COLUMNS)).argmin(0)]
        mean = self.power[nearest] / self._counts[nearest, None]
        bins = np.geomspace(LOWEST_HZ, rate / 2, _ROWS) / rate * FFT
        below = np.minimum(bins.astype(int), FFT // 2 - 1)
        share = (bins - below)[:, None]
        rows = mean.T[below] * (1 - share) + mean.T[below + 1] * share
        return np.asarray(10 * np.log10(np.maximum(rows, 1e-20)))


def draw(sketch: Sketch, file: SongFile, seams: Sequence[float], findings: Sequence[str], target: Path) -> None:
    """Write the picture as PNG.

    Args:
        seams: seconds where windows join.
        findings: sentences for the picture's foot.

    Raises:
        OutputError: it cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    seconds, names = file.faults.seconds, ("left", "right") if file.channels == 2 else ("mono",)
    figure = Figure(figsize=(14, 9.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    heights = [1.0] * file.channels + [2.4, 1.3]
    axes: list[Any] = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
    # Fewer samples than columns leave columns empty.
    low, high = sketch.envelope.low, sketch.envelope.high
    drawn = np.isfinite(low[0])
    times = ((np.arange(COLUMNS) + 0.5) / COLUMNS * seconds)[drawn]
    for channel, name in enumerate(names):
        axis = axes[channel]
        axis.fill_between(
            times,
            low[channel][drawn],
            high[channel][drawn],
            color=(_LEFT, _RIGHT)[channel],
            linewidth=0.4,
            step="mid",
        )
        axis.set(ylim=(-1.05, 1.05), ylabel=name, yticks=(-1, -0.5, 0, 0.5, 1))
    _draw_spectrogram(figure, axes[-2], sketch.spectrogram(file.sample_rate), seconds, file.sample_rate)
    _draw_levels(axes[-1], file)
    for index, axis in enumerate(axes):
        on_colours = axis is axes[-2]
        for seam in seams:
            axis.axvline(seam, color="white" if on_colours else _SEAM, linewidth=0.7, alpha=0.45, linestyle=(0, (2, 3)))
        for start, stop in file.faults.silences:
            axis.axvspan(start, stop, color=_FAULT, alpha=0.18, linewidth=0)
        if file.faults.first_clipped is not None and index < file.channels:
            axis.axvline(file.faults.first_clipped, color=_FAULT, linewidth=1.2)
        axis.margins(x=0)
        axis.set_xlim(0, seconds)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].xaxis.set_major_formatter(lambda value, _: f"{int(value // 60)}:{value % 60:04.1f}".removesuffix(".0"))
    joins = f", {len(seams)} window seam{'s' * (len(seams) > 1)} (dotted)" if seams else ""
    figure.suptitle(
        f"{file.path.name}   {clock(seconds)}, {file.sample_rate:,} Hz, {file.subtype.replace('_', ' ')}{joins}",
        x=0.01,
        ha="left",
        fontsize=12,
    )
    shown = [_shorten(text) for text in findings[:4]] + ([f"and {len(findings) - 4} more"] if len(findings) > 4 else [])
    axes[-1].set_xlabel(
        "\n".join(f"• {text}" for text in shown) if shown else "nothing found",
        color=_FAULT if shown else "#3a7d44",
        loc="left",
        fontsize=10,
    )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a title in a script that the font lacks
            figure.savefig(target, format="png")
    except OSError as error:
        raise OutputError(f"{target}: cannot be written ({error.strerror or error})") from None


def _shorten(text: str) -> str:
    return text if len(text) <= 150 else text[:147] + "..."


def _draw_spectrogram(figure: Any, axis: Any, spectrogram: np.ndarray, seconds: float, rate: int) -> None:
    top = max(float(spectrogram.max()), -60.0)
    image = axis.imshow(
        spectrogram,
        origin="lower",
        aspect="auto",
        extent=(0, seconds, 0, 1),
        cmap="magma",
        vmin=top - RANGE_DB,
        vmax=top,
        interpolation="nearest",
    )
    ticks = [hz for hz in (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000) if hz < rate / 2]
    span = np.log(rate / 2 / LOWEST_HZ)
    axis.set_yticks([np.log(hz / LOWEST_HZ) / span for hz in ticks])
    axis.set_yticklabels([f"{hz // 1000} kHz" if hz >= 1000 else f"{hz} Hz" for hz in ticks])
    axis.set_ylabel("spectrum")
    figure.colorbar(image, ax=axis, pad=0.01, label="dBFS", aspect=14)


def _draw_levels(axis: Any, file: SongFile) -> None:
    levels = file.levels
    curve = np.maximum(levels.short_term, -70)
    if len(curve):
        times = (SHORT_TERM_HOPS + np.arange(len(curve))) * 0.1
        axis.plot(times, curve, color=_LEFT, linewidth=1.4, label="short-term (3 s)")
    if levels.loudness is not None:
        axis.axhline(
            levels.loudness,
            color="#333333",
            linestyle="--",
            linewidth=1,
            label=f"integrated {levels.loudness:.1f} LUFS",
        )
    peak = levels.true_peak_db
    axis.plot([], [], " ", label=f"true peak {peak:.1f} dBTP" if np.isfinite(peak) else "silent")
    low = float(np.quantile(curve, 0.02)) - 6 if len(curve) else -40.0
    axis.set(ylabel="LUFS", ylim=(max(-70.0, min(low, -30.0)), 0))
    axis.legend(loc="lower right", ncols=3, fontsize=9, frameon=False)
    axis.grid(axis="y", linewidth=0.4, alpha=0.6)
