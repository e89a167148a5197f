"""Resampling in a stream equals torchaudio's one call on the whole, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from music3_cli.audio.resample import Resampler
from music3_cli.errors import UsageError
from tests.conftest import Music3
from tests.support.sound import blocks

torchaudio = pytest.importorskip("torchaudio")
NATIVE = 44_100


def whole(sound: np.ndarray, target: int) -> np.ndarray:
    return torchaudio.functional.resample(torch.from_numpy(sound), NATIVE, target).numpy()


def streamed(sound: np.ndarray, target: int, size: int, block: int = 2**16) -> np.ndarray:
    resampler = Resampler(NATIVE, target, block)
    parts = [resampler.push(part) for part in blocks(sound, size)]
    return np.concatenate([*parts, resampler.finish()], 1)


def noise(samples: int) -> np.ndarray:
    return np.random.default_rng(samples).uniform(-1, 1, (2, samples)).astype(np.float32)


@pytest.mark.parametrize("target", [32_000, 48_000])
@pytest.mark.parametrize("kind", ["noise", "sweep", "impulses"])
def test_signals(target: int, kind: str) -> None:
    samples = NATIVE * 4 + 123
    t = np.arange(samples) / NATIVE
    sound = {
        "noise": noise(samples),
        "sweep": np.stack([np.sin(2 * np.pi * 2750 * t**2), np.cos(2 * np.pi * 1000 * t**2)]).astype(np.float32),
        "impulses": np.where(np.arange(samples) % 997 == 0, 1, 0).astype(np.float32)[None].repeat(2, 0),
    }[kind]
    assert np.array_equal(streamed(sound, target, 176_640), whole(sound, target))


@pytest.mark.parametrize("periods", [100, 255, 256, 257, 317, 511, 1000])
@pytest.mark.parametrize("more", [-1, 0, 1, 220])
def test_lengths_around_multiples_of_the_period(periods: int, more: int) -> None:
    sound = noise(441 * periods + more)
    assert np.array_equal(streamed(sound, 32_000, 30_000), whole(sound, 32_000))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6000), st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([32_000, 48_000]))
def test_any_length_any_chunk_any_block(samples: int, size: int, block: int, target: int) -> None:
    sound = noise(samples)
    assert np.array_equal(streamed(sound, target, size, block), whole(sound, target))


def test_the_longest_song_has_torchaudios_length() -> None:
    """31049 latents, six minutes: torchaudio rounds the length in float32, which is not the exact length there."""
    sound = np.zeros((2, 31_049 * 512), np.float32)
    sound[:, :: 44_100 * 7] = 0.5
    assert np.array_equal(streamed(sound, 32_000, 176_640), whole(sound, 32_000))


def test_nothing_gives_nothing() -> None:
    assert Resampler(NATIVE, 32_000).finish().shape == (2, 0)


def test_without_torchaudio_it_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchaudio.functional", None)
    with pytest.raises(UsageError, match="needs torchaudio") as caught:
        Resampler(NATIVE, 32_000)
    assert "pip install torchaudio" in caught.value.hint


def test_without_torchaudio_no_weight_is_loaded(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    monkeypatch.setitem(__import__("sys").modules, "torchaudio.functional", None)
    Path("a.txt").write_text("[verse]\nla\n")
    ran = music3("render", "a.txt", "--checkpoint", "demo", "--sample-rate", 32000, "--no-progress")
    assert ran.code == 2 and "torchaudio" in ran.err and "weights loaded" not in ran.err
    assert not Path("a.wav").exists()
