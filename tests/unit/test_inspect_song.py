"""`music3 inspect song`: faults found from the file and its sidecar, JSON, and the picture."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from music3_cli.jobs.sidecar import sidecar_path
from tests.conftest import ROOT, Music3
from tests.support.sound import tone

RATE = 44_100


def song(sound: np.ndarray, name: str = "a.wav", subtype: str = "FLOAT", **changes: Any) -> Path:
    """A file with the sidecar of a song of 12 s."""
    path = Path(name)
    soundfile.write(path, sound.T, RATE, subtype=subtype)
    result = {
        "samples": 12 * RATE,
        "sample_rate": RATE,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "frames": 300,
        "finish_reason": "end",
        "seams": [5.0039, 9.0093],
        **changes,
    }
    content = {
        "song": {"id": "a", "title": "Night", "artist": "Someone", "seed": 7, "take": 1},
        "settings": {"lyrics": "[verse]\nfour\nlines\nof\nwords\n"},
        "checkpoint": {"name": "local"},
        "result": result,
        "repeat": "music3 render a.txt --seed 7",
    }
    sidecar_path(path).write_text(json.dumps(content))
    return path


def test_a_clean_song_passes(music3: Music3) -> None:
    ran = music3("inspect", "song", song(tone(12)))
    assert ran.code == 0 and "no faults found" in ran.out
    for part in ("0:12", "44100 Hz", "LUFS", "dBTP", "Night by Someone", "seed 7", "3 windows", "music3 render a.txt"):
        assert part in ran.out


def faulty(name: str) -> np.ndarray:
    sound = tone(12)
    if name == "nan":
        sound[0, RATE] = np.nan
    elif name == "gap":
        sound[:, 4 * RATE : 7 * RATE] = 0
    elif name == "dc":
        sound += np.float32(0.1)
    elif name == "clipped":
        sound = (sound * 4).clip(-1, 1)
    elif name == "dead":
        sound[1] = 0
    elif name == "half":
        sound = sound[:, : 6 * RATE]
    elif name == "loud":
        sound = sound * 3
    elif name == "quiet":
        sound = sound * np.float32(0.01)
    return sound


@pytest.mark.parametrize(
    ("fault", "code", "kind", "message"),
    [
        ("nan", 3, "errors", "1 samples are not finite, the first at 1.00 s"),
        ("gap", 0, "warnings", "silence of 3.0 s inside the song, from 0:04.00"),
        ("dc", 0, "warnings", "DC offset"),
        ("clipped", 0, "warnings", "clipping"),
        ("dead", 0, "warnings", "the right channel is dead"),
        ("half", 3, "errors", "early end: 6.00 s; by its sidecar the song has 12.00 s"),
        ("loud", 0, "warnings", "the true peak is +"),
        ("quiet", 0, "warnings", "very quiet"),
    ],
)
def test_faults_are_found(music3: Music3, fault: str, code: int, kind: str, message: str) -> None:
    path = song(faulty(fault))
    ran = music3("inspect", "song", path, "--json")
    found = json.loads(ran.out)
    assert ran.code == code
    assert any(message in text for text in found[kind]), found
    assert found["sidecar"]["song"]["seed"] == 7
    plain = music3("inspect", "song", path)
    assert plain.code == code and message in plain.out and "no faults" not in plain.out


def test_ceiling_early_end_and_changed_file_come_from_the_sidecar(music3: Music3) -> None:
    assert "reached its ceiling" in music3("inspect", "song", song(tone(12), finish_reason="ceiling")).out
    assert "not the file that was rendered" in music3("inspect", "song", song(tone(12), sha256="0")).out
    assert (
        "by its sidecar it was written at 32000 Hz" in music3("inspect", "song", song(tone(12), sample_rate=32000)).out
    )
    path = song(tone(3), samples=3 * RATE)
    assert "early end: the model ended the song after 0:03" in music3("inspect", "song", path).out


def test_a_file_without_sidecar_is_measured(music3: Music3) -> None:
    soundfile.write("b.flac", tone(2)[0], RATE)
    ran = music3("inspect", "song", "b.flac")
    assert ran.code == 0 and "1 channel," in ran.out and "no sidecar" in ran.out


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"", "not a readable sound file"), (b"words", "not a readable sound file")],
)
def test_what_is_no_sound_is_an_input_error(music3: Music3, content: bytes | None, message: str) -> None:
    if content is not None:
        Path("x.wav").write_bytes(content)
    for extra in ((), ("--plot", "x.png")):
        ran = music3("inspect", "song", "x.wav", *extra)
        assert ran.code == 4 and "x.wav" in ran.err and message in ran.err


def test_a_cut_flac_is_an_error(music3: Music3) -> None:
    soundfile.write("c.flac", tone(4).T, RATE)
    data = Path("c.flac").read_bytes()
    Path("c.flac").write_bytes(data[: len(data) // 2])
    ran = music3("inspect", "song", "c.flac")
    assert ran.code in (3, 4) and ("cut off" in ran.out or "not a readable" in ran.err)


def test_the_plot_is_a_picture_with_content(music3: Music3) -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    ran = music3("inspect", "song", song(faulty("gap")), "--plot", "a.png")
    assert ran.code == 0 and "a.png" in ran.err
    with image.open("a.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape[1] > 1200 and len(np.unique(pixels.reshape(-1, 3), axis=0)) > 500


@pytest.mark.parametrize(("target", "code"), [("a.jpg", 2), ("nowhere/a.png", 7)])
def test_a_plot_that_cannot_be_written_is_said_first(music3: Music3, target: str, code: int) -> None:
    pytest.importorskip("matplotlib")
    ran = music3("inspect", "song", song(tone(1)), "--plot", target)
    assert ran.code == code and target in ran.err and not ran.out


def test_without_matplotlib_the_plot_says_how_to_get_it(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    ran = music3("inspect", "song", song(tone(1)), "--plot", "a.png")
    assert ran.code == 2 and "music3[plot]" in ran.err


def test_no_torch_is_imported() -> None:
    path = song(tone(1))
    code = (
        "import sys; from music3_cli.cli.main import app\n"
        f"sys.argv = ['music3', 'inspect', 'song', {str(path)!r}]\n"
        "try: app()\nexcept SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).returncode == 0
