"""What can be wrong with a song's sound: clipping, DC offset, long silence, a dead channel, an early end. Measured in a
stream, judged at the end; nothing here changes the sound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from music3_cli.audio.levels import decibels
from music3_cli.song.limits import clock

FULL_SCALE = 1 - 2**-15
"""What a 16-bit file can hold as its largest positive sample."""
CLIPPED_RUN = 3
"""So many samples in a row at full scale are a clipped peak; fewer can be a peak that just reaches it."""
DC_LIMIT = 0.01
"""Mean of a channel, -40 dBFS."""
SILENCE_DB = -60.0
SILENCE_SECONDS = 2.0
"""Sound below -60 dBFS (RMS over 50 ms, both channels) is silence; 2 s of it inside a song are long."""
DEAD_DB, ALIVE_DB = -80.0, -50.0
"""A channel under the first while the other is over the second is dead."""
SECONDS_A_LINE = 1.5
"""No sung line is shorter on average; common are 3 to 5 s."""

_SPAN_SECONDS = 0.05


@dataclass(frozen=True)
class Faults:
    """Measurements of a whole song.

    Attributes:
        samples: a channel.
        not_finite: NaN or infinite samples, all channels together; they are left out of every other measurement.
        first_not_finite: seconds, or None.
        clipped_runs, clipped_samples: runs of at least 3 samples at full scale, all channels together.
        first_clipped: seconds, or None.
        dc: mean of each channel.
        rms: of each channel.
        silences: (start, stop) in seconds of long silences between the first and the last sound.
        lead, tail: seconds of silence before the first and behind the last sound; both the whole length in silence.
    """

    rate: int
    samples: int
    not_finite: int
    first_not_finite: float | None
    clipped_runs: int
    clipped_samples: int
    first_clipped: float | None
    dc: tuple[float, ...]
    rms: tuple[float, ...]
    silences: tuple[tuple[float, float], ...]
    lead: float
    tail: float

    @property
    def seconds(self) -> float:
        return self.samples / self.rate

    @property
    def is_silent(self) -> bool:
        return self.lead >= self.seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "not_finite_samples": self.not_finite,
            "clipped_runs": self.clipped_runs,
            "clipped_samples": self.clipped_samples,
            "dc_offset": [round(value, 6) for value in self.dc],
            "rms_dbfs": [round(max(decibels(value), -200.0), 2) for value in self.rms],
            "long_silences": [[round(start, 2), round(stop, 2)] for start, stop in self.silences],
            "lead_silence": round(self.lead, 2),
            "tail_silence": round(self.tail, 2),
        }

    def warnings(self) -> list[str]:
        """A sentence for everything that a listener should be warned of."""
        found = []
        if self.is_silent:
            return ["the song is silent from beginning to end"]
        if self.clipped_runs:
            runs = f"{self.clipped_runs} peaks are" if self.clipped_runs > 1 else "1 peak is"
            found.append(
                f"clipping: {runs} cut off at full scale ({self.clipped_samples} samples), the first at "
                f"{_at(self.first_clipped)}"
            )
        if max(map(abs, self.dc)) > DC_LIMIT:
            offsets = " and ".join(f"{value:+.3f}" for value in self.dc)
            found.append(f"DC offset: the sound is off centre by {offsets} of full scale")
        for start, stop in self.silences:
            found.append(f"silence of {stop - start:.1f} s inside the song, from {_at(start)}")
        levels = [decibels(value) for value in self.rms]
        if len(levels) == 2 and min(levels) < DEAD_DB and max(levels) > ALIVE_DB:
            dead = ("left", "right")[levels.index(min(levels))]
            found.append(f"the {dead} channel is dead: there is sound in the other only")
        return found


def _at(seconds: float | None) -> str:
    """`1:05.25`."""
    minutes, rest = divmod(seconds or 0.0, 60)
    return f"{int(minutes)}:{rest:05.2f}"


def warning_time(warning: str) -> float | None:
    """Where in the song a warning's fault begins, in seconds; None for those about the whole song."""
    found = re.search(r"(?:at|from) (\d+):([0-5]\d\.\d\d)(?!\d)", warning)
    return int(found[1]) * 60 + float(found[2]) if found else None


class FaultMeter:
    """Measures blocks of [C, n] samples, in order."""

    def __init__(self, rate: int, channels: int = 2) -> None:
        self._rate, self._channels = rate, channels
        self._samples, self._not_finite = 0, 0
        self._first_not_finite: float | None = None
        self._sums, self._squares = np.zeros(channels), np.zeros(channels)
        self._open_run = np.zeros(channels, np.int64)
        self._clipped_runs, self._clipped_samples = 0, 0
        self._first_clipped: int | None = None
        self._span = round(rate * _SPAN_SECONDS)
        self._mean_squares: list[float] = []
        self._rest = np.zeros((channels, 0), np.float32)

    def push(self, sound_CS: np.ndarray) -> None:
        for start in range(0, sound_CS.shape[1], 2**16):
            self._push(sound_CS[:, start : start + 2**16])

    def _push(self, sound_CS: np.ndarray) -> None:
        finite = np.isfinite(sound_CS)
        if not finite.all():
            if self._first_not_finite is None:
                self._first_not_finite = (self._samples + int(np.argmin(finite.all(0)))) / self._rate
            self._not_finite += int(finite.size - finite.sum())
            sound_CS = np.where(finite, sound_CS, 0)
        self._sums += sound_CS.sum(1, dtype=np.float64)
        self._squares += np.square(sound_CS, dtype=np.float64).sum(1)
        for channel in range(self._channels):
            self._find_runs(np.abs(sound_CS[channel]) >= FULL_SCALE, channel)
        held = np.concatenate((self._rest, sound_CS), 1)
        spans = held.shape[1] // self._span
        whole, self._rest = held[:, : spans * self._span], held[:, spans * self._span :]
        mean_squares = np.square(whole, dtype=np.float64).reshape(self._channels, spans, self._span).mean(2)
        self._mean_squares += mean_squares.max(0).tolist()  # the louder channel decides
        self._samples += sound_CS.shape[1]

    def _find_runs(self, full_S: np.ndarray, channel: int) -> None:
        """Runs of full-scale samples; one that reaches the block's end goes on in the next block."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], full_S, [False])).astype(np.int8)))
        starts, stops = edges[::2], edges[1::2]
        carried, self._open_run[channel] = int(self._open_run[channel]), 0
        if carried and not (len(starts) and starts[0] == 0):
            self._count_run(self._samples - carried, carried)
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            length = stop - start + (carried if start == 0 else 0)
            if stop == len(full_S):
                self._open_run[channel] = length
            else:
                self._count_run(self._samples + stop - length, length)

    def _count_run(self, start: int, length: int) -> None:
        if length >= CLIPPED_RUN:
            self._clipped_runs += 1
            self._clipped_samples += length
            self._first_clipped = start if self._first_clipped is None else min(self._first_clipped, start)

    def finish(self) -> Faults:
        """What all blocks together give. Call it once."""
        for length in self._open_run.tolist():
            self._count_run(self._samples - length, length)
        if self._rest.shape[1]:
            self._mean_squares.append(float(np.square(self._rest, dtype=np.float64).mean(1).max()))
        span = self._span / self._rate
        silent = np.array(self._mean_squares) < 10 ** (SILENCE_DB / 10)
        seconds = self._samples / self._rate
        sound = np.flatnonzero(~silent)
        silences = []
        if len(sound):
            gaps = np.flatnonzero(np.diff(sound) > 1)
            silences = [(float((sound[gap] + 1) * span), float(sound[gap + 1] * span)) for gap in gaps]
        count = max(1, self._samples)
        return Faults(
            rate=self._rate,
            samples=self._samples,
            not_finite=self._not_finite,
            first_not_finite=self._first_not_finite,
            clipped_runs=self._clipped_runs,
            clipped_samples=self._clipped_samples,
            first_clipped=None if self._first_clipped is None else self._first_clipped / self._rate,
            dc=tuple((self._sums / count).tolist()),
            rms=tuple(np.sqrt(self._squares / count).tolist()),
            silences=tuple((start, stop) for start, stop in silences if stop - start >= SILENCE_SECONDS - 1e-9),
            lead=float(sound[0] * span) if len(sound) else seconds,
            tail=max(0.0, seconds - float((sound[-1] + 1) * span)) if len(sound) else seconds,
        )


def ending_warnings(finish_reason: str, seconds: float, lyrics: str) -> list[str]:
    """Whether a song was cut off, or ended before its words can have been sung.

    Args:
        finish_reason: `end` or `ceiling`.
        seconds: its length.
        lyrics: as the talker read them.
    """
    if finish_reason == "ceiling":
        return ["the song reached its ceiling and was cut off; raise --max-duration"]
    lines = sung_lines(lyrics)
    if seconds < lines * SECONDS_A_LINE:
        return [
            f"early end: the model ended the song after {clock(seconds)}, under {SECONDS_A_LINE:g} s for each of its "
            f"{lines} sung lines; listen to its end, or try another --seed"
        ]
    return []


def sung_lines(lyrics: str) -> int:
    """Lines with words: no tag at their beginning, no stage direction in brackets."""
    lines = [line.strip() for line in lyrics.splitlines()]
    return sum(1 for line in lines if line and not line.startswith(("[", "(")))
