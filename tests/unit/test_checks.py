"""Faults that are put into a clean song are found, each by its own warning, and the clean song passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from music3_cli.audio.checks import CLIPPED_RUN, FULL_SCALE, FaultMeter, Faults, ending_warnings, sung_lines
from tests.support.sound import blocks, tone

RATE = 44_100


def measured(sound: np.ndarray, size: int = 50_000) -> Faults:
    meter = FaultMeter(RATE, len(sound))
    for block in blocks(sound, size):
        meter.push(block)
    return meter.finish()


def gap(sound: np.ndarray) -> np.ndarray:
    sound[:, 5 * RATE : 8 * RATE] = 0
    return sound


def dc(sound: np.ndarray) -> np.ndarray:
    return sound + np.float32(0.05)


def clipped(sound: np.ndarray) -> np.ndarray:
    return (sound * 4).clip(-1, 1)


def dead_left(sound: np.ndarray) -> np.ndarray:
    sound[0] = 0
    return sound


def dead_right(sound: np.ndarray) -> np.ndarray:
    sound[1] *= 1e-5
    return sound


def silent(sound: np.ndarray) -> np.ndarray:
    return sound * np.float32(1e-5)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (gap, "silence of 3.0 s inside the song, from 0:05.00"),
        (dc, "DC offset: the sound is off centre by +0.050 and +0.050"),
        (clipped, "clipping: "),
        (dead_left, "the left channel is dead"),
        (dead_right, "the right channel is dead"),
        (silent, "the song is silent from beginning to end"),
    ],
)
@pytest.mark.parametrize("size", [1000, 176_640, 10**7])
def test_a_fault_is_found_alone(fault: Callable[[np.ndarray], np.ndarray], message: str, size: int) -> None:
    warnings = measured(fault(tone(12)), size).warnings()
    assert len(warnings) == 1 and message in warnings[0]


def test_clean_songs_pass() -> None:
    quiet_bridge = tone(12)
    quiet_bridge[:, 5 * RATE : 8 * RATE] *= np.float32(0.01)  # -50 dB, quiet but there
    short_stop = tone(12)
    short_stop[:, 5 * RATE : 6 * RATE] = 0
    faded_out = np.concatenate((tone(6), np.zeros((2, 4 * RATE), np.float32)), 1)
    for sound in (tone(12), tone(0.035), quiet_bridge, short_stop, faded_out, tone(12, level=0.95)):
        assert measured(sound).warnings() == []


def test_silence_at_the_ends_is_measured_and_no_fault() -> None:
    sound = np.concatenate((np.zeros((2, RATE), np.float32), tone(6), np.zeros((2, 2 * RATE), np.float32)), 1)
    faults = measured(sound)
    assert faults.lead == pytest.approx(1, abs=0.06) and faults.tail == pytest.approx(2, abs=0.06)
    assert faults.warnings() == []


def test_not_finite_samples_are_counted_and_left_out() -> None:
    sound = tone(3)
    sound[1, RATE] = np.nan
    sound[0, 2 * RATE] = np.inf
    faults = measured(sound)
    assert (faults.not_finite, faults.first_not_finite) == (2, 1.0)
    assert np.isfinite(faults.rms).all() and np.isfinite(faults.dc).all()


@settings(deadline=None, max_examples=200)
@given(st.lists(st.booleans(), min_size=1, max_size=80), st.integers(1, 20))
def test_clipped_runs_do_not_depend_on_blocks(full: list[bool], size: int) -> None:
    sound = np.where(full, 1.0, 0.1).astype(np.float32)[None].repeat(2, 0)
    runs = [len(run) for run in "".join("x" if one else " " for one in full).split() if len(run) >= CLIPPED_RUN]
    faults = measured(sound, size)
    assert (faults.clipped_runs, faults.clipped_samples) == (2 * len(runs), 2 * sum(runs))
    if runs:
        first = "".join("x" if one else " " for one in full).index("x" * CLIPPED_RUN)
        assert faults.first_clipped == first / RATE


def test_a_16_bit_files_largest_sample_is_full_scale() -> None:
    assert 32767 / 32768 >= FULL_SCALE > 32766 / 32768


LYRICS = "[verse]\n" + "one line of words\n" * 20 + "(instrumental)\n\n[outro]\n"


def test_early_end_and_ceiling() -> None:
    assert sung_lines(LYRICS) == 20
    assert ending_warnings("end", 60, LYRICS) == []
    assert "early end" in ending_warnings("end", 20, LYRICS)[0]
    assert "ceiling" in ending_warnings("ceiling", 60, LYRICS)[0]
    assert ending_warnings("end", 5, "[intro]\n(instrumental)") == []
