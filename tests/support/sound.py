"""Test signals, and independent programs to look at files with."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

needs_ffmpeg = pytest.mark.skipif(
    not (shutil.which("ffmpeg") and shutil.which("ffprobe")), reason="needs the program ffmpeg"
)
needs_sox = pytest.mark.skipif(not shutil.which("sox"), reason="needs the program sox")


def tone(seconds: float, rate: int = 44_100, level: float = 0.4) -> np.ndarray:
    """[2, samples] float32: a chord over a little noise, other levels left and right, without a jump at its ends."""
    count = round(seconds * rate)
    t = np.arange(count) / rate
    rng = np.random.default_rng(5)
    left = np.sin(2 * np.pi * 440 * t) + 0.5 * np.sin(2 * np.pi * 1234.5 * t)
    right = 0.7 * np.sin(2 * np.pi * 660 * t) + 0.2 * np.sin(2 * np.pi * 97 * t)
    sound = level / 1.6 * np.stack((left, right)) + 0.01 * rng.standard_normal((2, count))
    return faded(sound, rate)


def faded(sound_CS: np.ndarray, rate: int) -> np.ndarray:
    """50 ms in and out, float32."""
    at = np.arange(sound_CS.shape[1])
    return (sound_CS * np.minimum(1, np.minimum(at, at[::-1]) / (0.05 * rate))).astype(np.float32)


def blocks(sound_CS: np.ndarray, size: int) -> list[np.ndarray]:
    return [sound_CS[:, start : start + size] for start in range(0, sound_CS.shape[1], size)]


def ffmpeg_decode(path: Path, rate: int) -> np.ndarray:
    """[2, samples] float32 as ffmpeg hears the file."""
    command = [
        "ffmpeg",
        "-v",
        "error",
        "-i",
        path,
        "-f",
        "f32le",
        "-acodec",
        "pcm_f32le",
        "-ac",
        "2",
        "-ar",
        str(rate),
        "-",
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, check=True)
    assert not done.stderr, done.stderr
    return np.frombuffer(done.stdout, np.float32).reshape(-1, 2).T


def ffprobe(path: Path) -> dict[str, Any]:
    """The file's first stream and all tags, with names in lower case."""
    command = ["ffprobe", "-v", "error", "-show_streams", "-show_format", "-of", "json", str(path)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    audio = next(stream for stream in found["streams"] if stream["codec_type"] == "audio")
    tags = found["format"].get("tags", {}) | audio.get("tags", {})
    pictures = sum(stream["codec_type"] == "video" for stream in found["streams"])
    return {**audio, "tags": {name.lower(): value for name, value in tags.items()}, "pictures": pictures}


def ffmpeg_loudness(path: Path) -> tuple[float, float]:
    """Integrated loudness (LUFS) and true peak (dBTP) by ffmpeg's ebur128 filter, which shows one decimal."""
    command = ["ffmpeg", "-nostats", "-i", str(path), "-filter_complex", "ebur128=peak=true", "-f", "null", "-"]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stderr
    summary = text[text.rindex("Summary") :]
    loudness, peak = re.search(r"I:\s+(-?[\d.]+)", summary), re.search(r"Peak:\s+(-?[\d.]+)", summary)
    assert loudness and peak, summary
    return float(loudness[1]), float(peak[1])
