"""How loud a song is: integrated loudness and true peak (EBU R128, ITU-R BS.1770-4), and the gain to a wanted level.

Measured in a stream. The K-weighting filters are pyloudnorm's; gating follows BS.1770-4 section 2 on blocks of 400 ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from music3_cli.song.delivery import TRUE_PEAK_CEILING, Normalization

HOP_SECONDS = 0.1
"""A gating block is 4 hops of 100 ms and begins a hop after its predecessor."""
BLOCK_HOPS = 4
SHORT_TERM_HOPS = 30
ABSOLUTE_GATE, RELATIVE_GATE = -70.0, -10.0
QUIET, LOUD = -36.0, -5.0
"""LUFS; outside of this a song is hardly music as people play it (streaming services aim at -14)."""

OVERSAMPLING = 4
_TAPS = 48
_BATCH = 32
"""True peak: a windowed sinc of 48 taps a phase, 32 samples at a time as one matrix product."""


def decibels(amplitude: float) -> float:
    """20 log10, -inf for 0."""
    return 20 * math.log10(amplitude) if amplitude > 0 else -math.inf


def k_weighting(rate: int) -> list[Any]:
    """The two filters of BS.1770-4 for any sample rate, as objects with coefficients `a` and `b`.

    Centre, quality and gain are those that the standard's 48 kHz coefficients were made from (as found by libebur128's
    and ffmpeg's authors); pyloudnorm turns them into coefficients for `rate`.
    """
    from pyloudnorm import IIRfilter

    shelf = IIRfilter(3.99984385397, 0.7071752369554193, 1681.9744509555319, rate, "high_shelf_DeMan")
    return [shelf, IIRfilter(0.0, 0.5003270373253953, 38.13547087613982, rate, "high_pass_DeMan")]


@dataclass(frozen=True)
class Levels:
    """What was measured.

    Attributes:
        loudness: integrated, LUFS; None for less than 400 ms or silence.
        true_peak, sample_peak: amplitudes, 1.0 is full scale.
        short_term: LUFS of the last 3 s at every 100 ms from 3 s on.
    """

    loudness: float | None
    true_peak: float
    sample_peak: float
    short_term: np.ndarray

    @property
    def true_peak_db(self) -> float:
        return decibels(self.true_peak)

    def warnings(self, gain_db: float = 0.0) -> list[str]:
        """Levels that players or listeners will have trouble with, after a gain."""
        found, peak = [], self.true_peak_db + gain_db
        if peak > 0:
            found.append(f"the true peak is {peak:+.1f} dBTP: players and encoders may clip; use --normalize peak")
        if self.loudness is not None and not QUIET <= self.loudness + gain_db <= LOUD:
            how = "quiet" if self.loudness + gain_db < QUIET else "loud"
            found.append(f"the song is very {how}: {self.loudness + gain_db:.1f} LUFS; use --normalize loudness")
        return found

    def to_json(self, gain_db: float = 0.0) -> dict[str, float | None]:
        """Numbers for sidecars, after a gain; silence has None."""

        def rounded(value: float | None) -> float | None:
            return None if value is None or not math.isfinite(value) else round(value + gain_db, 2)

        return {
            "integrated_lufs": rounded(self.loudness),
            "true_peak_dbtp": rounded(self.true_peak_db),
            "sample_peak_dbfs": rounded(decibels(self.sample_peak)),
        }


class LevelMeter:
    """Measures blocks of [C, n] samples, in order.

    Args:
        rate: Hz, a multiple of 10.
        channels: 1 or 2; each has weight 1.
    """

    def __init__(self, rate: int, channels: int = 2) -> None:
        self._filters = [(f.b, f.a, np.zeros((channels, max(len(f.a), len(f.b)) - 1))) for f in k_weighting(rate)]
        self._hop = round(rate * HOP_SECONDS)
        self._squares: list[float] = []
        self._rest = np.zeros((channels, 0))
        self._peaks = TruePeakMeter(channels)

    def push(self, sound_CS: np.ndarray) -> None:
        for start in range(0, sound_CS.shape[1], 2**16):
            self._push(sound_CS[:, start : start + 2**16])

    def _push(self, sound_CS: np.ndarray) -> None:
        from scipy.signal import lfilter

        self._peaks.push(sound_CS)
        weighted: np.ndarray = sound_CS.astype(np.float64)
        for index, (b, a, state) in enumerate(self._filters):
            weighted, state = lfilter(b, a, weighted, axis=-1, zi=state)
            self._filters[index] = (b, a, state)
        held = np.concatenate((self._rest, weighted), 1)
        hops = held.shape[1] // self._hop
        whole, self._rest = held[:, : hops * self._hop], held[:, hops * self._hop :]
        # Channels have equal weights, so their squares can be summed at once.
        self._squares += np.square(whole).reshape(len(held), hops, self._hop).sum((0, 2)).tolist()

    def finish(self) -> Levels:
        """What all blocks together give; the meter can go on afterwards."""
        hops = np.array(self._squares) / self._hop
        true_peak, sample_peak = self._peaks.finish()
        return Levels(
            integrated_loudness(_moving_mean(hops, BLOCK_HOPS)),
            true_peak,
            sample_peak,
            _loudness(_moving_mean(hops, SHORT_TERM_HOPS)),
        )


def integrated_loudness(blocks: np.ndarray) -> float | None:
    """Gated mean of blocks' weighted mean squares, LUFS; None where every block is below the absolute gate."""
    loud = blocks[_loudness(blocks) > ABSOLUTE_GATE]
    if not len(loud):
        return None
    loud = loud[_loudness(loud) > float(_loudness(loud.mean())) + RELATIVE_GATE]
    return float(_loudness(loud.mean()))


def _loudness(mean_square: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(-0.691 + 10 * np.log10(mean_square))


def _moving_mean(values: np.ndarray, length: int) -> np.ndarray:
    if len(values) < length:
        return np.zeros(0)
    return np.lib.stride_tricks.sliding_window_view(values, length).mean(1)


class TruePeakMeter:
    """The largest amplitude between the samples too, by interpolation at four times the rate (BS.1770-4, annex 2)."""

    def __init__(self, channels: int) -> None:
        self._held = np.zeros((channels, _TAPS // 2), np.float32)
        self._true, self._sample = 0.0, 0.0

    def push(self, sound_CS: np.ndarray) -> None:
        self._sample = max(self._sample, float(np.abs(sound_CS).max(initial=0.0)))
        held = np.concatenate((self._held, sound_CS.astype(np.float32)), 1)
        count = max(0, held.shape[1] - _TAPS + 1) // _BATCH
        if count:
            self._true = max(self._true, _peak_between(held, count))
        self._held = held[:, count * _BATCH :]

    def finish(self) -> tuple[float, float]:
        """True peak and sample peak."""
        held = np.pad(self._held, ((0, 0), (0, _TAPS + _BATCH)))
        return max(self._true, self._sample, _peak_between(held, (held.shape[1] - _TAPS + 1) // _BATCH)), self._sample


def _peak_between(held_CS: np.ndarray, count: int) -> float:
    frames = np.lib.stride_tricks.sliding_window_view(held_CS, _TAPS + _BATCH - 1, 1)[:, ::_BATCH][:, :count]
    return float(np.abs(frames @ _interpolation()).max(initial=0.0))


@lru_cache(maxsize=1)
def _interpolation() -> np.ndarray:
    """[taps + batch - 1, batch * 3] float32: the values at 1/4, 2/4 and 3/4 behind each of a batch of samples."""
    taps = np.arange(_TAPS) - (_TAPS // 2 - 1)
    matrix = np.zeros((_TAPS + _BATCH - 1, _BATCH, OVERSAMPLING - 1))
    for phase in range(1, OVERSAMPLING):
        at = taps - phase / OVERSAMPLING
        window = np.i0(9.0 * np.sqrt(np.clip(1 - (at / (_TAPS / 2)) ** 2, 0, 1))) / np.i0(9.0)  # Kaiser, beta 9
        kernel = np.sinc(at) * window
        for sample in range(_BATCH):
            matrix[sample : sample + _TAPS, sample, phase - 1] = kernel / kernel.sum()
    return matrix.reshape(len(matrix), -1).astype(np.float32)


@dataclass(frozen=True)
class Gain:
    """What normalisation does.

    Attributes:
        db: applied, in whole steps of 0.01 dB, so that no last bit of a measurement decides about samples.
        wanted_db: what the target alone would need.
        note: what kept the song from its target, a sentence, or empty.
    """

    db: float
    wanted_db: float
    note: str = ""

    @property
    def factor(self) -> float:
        return float(10 ** (self.db / 20))


def gain_to(target: Normalization, levels: Levels) -> Gain:
    """The gain that brings a song to its target with its true peak under -1 dBTP. There is no limiter: where the peak
    is in the way, the song stays quieter than asked for.
    """
    room = TRUE_PEAK_CEILING - levels.true_peak_db
    if target.mode == "peak":
        wanted = target.target - levels.true_peak_db
    elif levels.loudness is None:
        wanted = math.inf
    else:
        wanted = target.target - levels.loudness
    if not math.isfinite(wanted) or not math.isfinite(room):
        return Gain(0.0, 0.0, "the song is silent or too short for its level to be measured; the level was not changed")
    gain = min(round(wanted, 2), math.floor(room * 100) / 100)
    note = ""
    if wanted > room + 0.01 and levels.loudness is not None:
        note = (
            f"{target.target:g} LUFS needs {wanted:+.1f} dB, but the true peak leaves {room:+.1f} dB under "
            f"{TRUE_PEAK_CEILING:g} dBTP; the song is at {levels.loudness + gain:.1f} LUFS"
        )
    return Gain(gain, wanted, note)
