"""Loudness, true peak and the gain to a level, against other people's meters."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import soundfile

from music3_cli.audio.levels import LevelMeter, Levels, gain_to
from music3_cli.song.delivery import Normalization
from tests.support.sound import blocks, faded, ffmpeg_loudness, needs_ffmpeg, tone

RATES = (44_100, 32_000)


def signals(rate: int) -> dict[str, np.ndarray]:
    rng, count = np.random.default_rng(1), rate * 12
    t = np.arange(count) / rate
    white = rng.standard_normal((2, count))
    spectrum = np.fft.rfft(white)
    spectrum[:, 1:] /= np.sqrt(np.arange(1, spectrum.shape[1]))
    spectrum[:, 0] = 0
    pink = np.fft.irfft(spectrum, count)
    sweep_rate = math.log(15_000 / 20) / t[-1]
    sweep = 0.4 * np.sin(2 * np.pi * 20 / sweep_rate * (np.exp(t * sweep_rate) - 1))
    steps = np.where(t // 3 % 2 == 0, 0.5, 0.004)
    found = {
        "chord": tone(12, rate),
        "pink noise": 0.1 * pink / pink.std(),
        "white noise": 0.05 * white,
        "sweep": np.stack((sweep, sweep)),
        "loud and quiet": np.stack((steps * np.sin(2 * np.pi * 440 * t), steps * np.sin(2 * np.pi * 1300 * t))),
        "between the samples": np.stack([0.5 * np.sin(np.pi / 2 * np.arange(count) + np.pi / 4)] * 2),
        "clicks": np.where(np.arange(count) % (rate // 2) == rate // 4, 0.9, 0) + 0.003 * white,
    }
    return {name: faded(sound, rate) for name, sound in found.items()}


def measured(sound: np.ndarray, rate: int, size: int = 50_000) -> Levels:
    meter = LevelMeter(rate, len(sound))
    for block in blocks(sound, size):
        meter.push(block)
    return meter.finish()


@needs_ffmpeg
@pytest.mark.parametrize("rate", RATES)
def test_loudness_and_true_peak_are_ffmpegs(rate: int, tmp_path: Path) -> None:
    for name, sound in signals(rate).items():
        soundfile.write(tmp_path / "sound.wav", sound.T, rate, subtype="FLOAT")
        loudness, peak = ffmpeg_loudness(tmp_path / "sound.wav")
        levels = measured(sound, rate)
        assert levels.loudness == pytest.approx(loudness, abs=0.1), name
        assert levels.true_peak_db == pytest.approx(peak, abs=0.1), name


@pytest.mark.parametrize("rate", RATES)
def test_loudness_is_pyloudnorms_on_the_whole(rate: int) -> None:
    import pyloudnorm

    meter = pyloudnorm.Meter(rate, filter_class="DeMan")
    for name, sound in signals(rate).items():
        wanted = meter.integrated_loudness(sound.T.astype(np.float64))
        assert measured(sound, rate).loudness == pytest.approx(wanted, abs=1e-6), name


def test_blocks_of_any_size_measure_the_same() -> None:
    sound = signals(44_100)["loud and quiet"]
    whole = measured(sound, 44_100, sound.shape[1])
    for size in (777, 44_100, 176_640):
        levels = measured(sound, 44_100, size)
        assert levels.loudness == pytest.approx(whole.loudness, abs=1e-9)
        assert levels.true_peak == pytest.approx(whole.true_peak, rel=1e-6)
        assert np.allclose(levels.short_term, whole.short_term)


def test_a_full_scale_sine_of_997_hz_in_one_channel_is_3_lufs_down() -> None:
    """BS.1770-4: 0 dBFS, 1 kHz in one front channel reads -3.01 LKFS."""
    t = np.arange(44_100 * 5) / 44_100
    levels = measured(np.sin(2 * np.pi * 997 * t)[None], 44_100)
    assert levels.loudness == pytest.approx(-3.01, abs=0.02)


def test_silence_and_short_songs_have_no_loudness() -> None:
    assert measured(np.zeros((2, 88_200), np.float32), 44_100).loudness is None
    assert measured(tone(0.3), 44_100).loudness is None
    assert measured(np.zeros((2, 88_200), np.float32), 44_100).to_json() == {
        "integrated_lufs": None,
        "true_peak_dbtp": None,
        "sample_peak_dbfs": None,
    }


def levels(loudness: float | None, true_peak_db: float) -> Levels:
    peak = 10 ** (true_peak_db / 20)
    return Levels(loudness, peak, peak, np.zeros(0))


def test_gain_reaches_the_target_where_the_peak_allows() -> None:
    gain = gain_to(Normalization("loudness", -14), levels(-20, -12))
    assert gain.db == 6 and not gain.note
    assert gain_to(Normalization("loudness", -14), levels(-9, 0)).db == -5
    assert gain_to(Normalization("peak", -1), levels(-20, -4)).db == pytest.approx(3, abs=0.011)
    assert gain_to(Normalization("peak", -6), levels(None, -4)).db == pytest.approx(-2, abs=0.011)


def test_gain_stops_under_the_true_peak_ceiling_and_says_so() -> None:
    gain = gain_to(Normalization("loudness", -14), levels(-20, -3.004))
    assert gain.db == 2.0 and gain.wanted_db == pytest.approx(6)
    assert "the song is at -18.0 LUFS" in gain.note


def test_silence_is_left_alone() -> None:
    assert gain_to(Normalization("loudness", -14), levels(None, -math.inf)).db == 0
    assert "silent" in gain_to(Normalization("peak", -1), levels(None, -math.inf)).note
