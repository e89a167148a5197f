"""`music3 render` to files: formats, rates, levels, sidecar, tags, and the command that repeats a song."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import Music3

SONG = (
    "song.txt",
    "--checkpoint",
    "demo",
    "--caption",
    "A slow song.",
    "--max-duration",
    1,
    "--steps",
    1,
    "--no-progress",
)


@pytest.fixture(autouse=True)
def lyrics() -> None:
    Path("song.txt").write_text("---\ntitle: 夜の歌\n---\n[verse]\nIt's “light”\n")


def render(music3: Music3, output: str, *flags: object) -> dict[str, Any]:
    ran = music3("render", *SONG, "-o", output, *flags)
    assert ran.code == 0, ran.err
    return json.loads(Path(f"{output}.json").read_text())


FILES = [
    ("a.wav", (), "WAV", "PCM_16", 44_100),
    ("a.wav", ("--bit-depth", 24, "--sample-rate", 32000), "WAV", "PCM_24", 32_000),
    ("a.flac", (), "FLAC", "PCM_16", 44_100),
    ("a.mp3", ("--quality", 4), "MP3", "MPEG_LAYER_III", 44_100),
    ("a.ogg", ("--sample-rate", 32000), "OGG", "VORBIS", 32_000),
    ("a.opus", ("--normalize", "peak"), "OGG", "OPUS", 48_000),
]


@pytest.mark.parametrize(("output", "flags", "container", "subtype", "rate"), FILES)
def test_formats(
    music3: Music3, output: str, flags: tuple[object, ...], container: str, subtype: str, rate: int
) -> None:
    record = render(music3, output, *flags)
    info = soundfile.info(output)
    assert (info.format, info.subtype, info.samplerate, info.channels) == (container, subtype, rate, 2)
    assert info.frames == record["result"]["samples"] == -(-86 * 512 * rate // 44_100)
    assert record["levels"]["true_peak_dbtp"] is not None and record["checks"]["clipped_runs"] == 0
    again = music3("render", *SONG, "-o", output, *flags)
    assert again.code == 0 and "kept" in again.err
    judged = music3("inspect", "song", output, "--json")
    assert judged.code == 0 and json.loads(judged.out)["notes"] == []


def test_format_names_the_file_where_the_output_is_a_folder(music3: Music3) -> None:
    assert music3("render", *SONG, "-o", "out/", "--format", "flac").code == 0
    assert [path.name for path in sorted(Path("out").iterdir())] == ["song.flac", "song.flac.json"]


def test_another_delivery_is_another_song(music3: Music3) -> None:
    render(music3, "a.wav")
    for flags in (("--no-dither",), ("--bit-depth", 24), ("--normalize", "peak"), ("--sample-rate", 32000)):
        ran = music3("render", *SONG, "-o", "a.wav", *flags)
        assert ran.code == 7 and "wanted" in ran.err
    assert music3("render", *SONG, "-o", "a.wav", "--artist", "Someone else").code == 0  # tags are not part of the key


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("-o", "a.wav", "--format", "flac"), "ending .wav"),
        (("-o", "a.xyz"), "ending .xyz"),
        (("-o", "a.mp3", "--bit-depth", 16), "--bit-depth"),
        (("--quality", 3), "--quality"),
        (("-o", "a.opus", "--sample-rate", 32000), "48000"),
        (("--sample-rate", 22050), "44100, 32000"),
        (("--normalize", "loudness=3"), "LUFS"),
    ],
)
def test_contradictions_are_usage_errors(music3: Music3, flags: tuple[object, ...], message: str) -> None:
    ran = music3("render", *SONG, *flags)
    assert ran.code == 2 and message in ran.err


@pytest.mark.parametrize(
    "flags",
    [
        ("-o", "a.wav", "--seed", 9),
        ("-o", "a.flac", "--bit-depth", 24, "--no-dither", "--artist", "O'Neill", "--track", "2/9", "--guidance", 2),
        ("-o", "a.mp3", "--quality", 2.5, "--sample-rate", 32000, "--normalize", "loudness=-20", "--noise-seed", 4),
    ],
)
def test_the_recorded_command_repeats_the_file(music3: Music3, flags: tuple[object, ...]) -> None:
    output = str(flags[1])
    record = render(music3, output, *flags[2:])
    words = shlex.split(record["repeat"])
    assert words[:2] == ["music3", "render"]
    ran = music3(*words[1:], "--no-progress", "-o", f"again/{output}")
    assert ran.code == 0, ran.err
    assert Path("again", output).read_bytes() == Path(output).read_bytes()


def test_the_comment_holds_the_command_and_the_lyrics_are_there(music3: Music3) -> None:
    from mutagen.flac import FLAC

    record = render(music3, "a.flac")
    tags = FLAC("a.flac")
    assert tags["title"] == ["夜の歌"] and tags["lyrics"] == ["[verse]\nIt's “light”"]
    assert record["repeat"] in tags["comment"][0] and tags["comment"][0].startswith("AI-generated with MiniMax-Music3")
    assert tags["model_revision"][0].removeprefix("digest ") == record["checkpoint"]["digest"][:16]


def test_labels_know_nothing_of_takes_and_neighbours(music3: Music3) -> None:
    Path("other").mkdir()
    for name in ("plain.txt", "other/plain.txt"):
        Path(name).write_text("[verse]\nla\n")
    flags = (*SONG[1:], "--format", "flac")
    assert music3("render", "other/plain.txt", "plain.txt", *flags, "--takes", 2, "--seed", 4, "-o", "all/").code == 0
    assert music3("render", "plain.txt", *flags, "--seed", 5, "-o", "alone.flac").code == 0
    assert Path("all/plain-2-take2.flac").read_bytes() == Path("alone.flac").read_bytes()


def test_sample_rate_32000_is_torchaudios(music3: Music3) -> None:
    torchaudio = pytest.importorskip("torchaudio")
    import torch

    render(music3, "a.wav", "--bit-depth", "float")
    render(music3, "b.wav", "--bit-depth", "float", "--sample-rate", 32000)
    native, rate = soundfile.read("a.wav", dtype="float32")
    wanted = torchaudio.functional.resample(torch.from_numpy(native.T.copy()), rate, 32_000).numpy()
    assert np.array_equal(soundfile.read("b.wav", dtype="float32")[0].T, wanted)


def test_levels_are_said_and_sent(music3: Music3) -> None:
    ran = music3("render", *SONG, "-o", "a.wav", "--normalize", "loudness=-20")
    assert "-20.0 LUFS" in ran.err and "dBTP" in ran.err
    ran = music3("render", *SONG, "-o", "b.wav", "--json", "--normalize", "loudness=-20")
    finished = next(record for record in ran.records if record["event"] == "song_finished")
    assert finished["levels"]["integrated_lufs"] == pytest.approx(-20, abs=0.05) and finished["levels"]["gain_db"]
