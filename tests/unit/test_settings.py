"""Values, sources and who wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.errors import InputError, UsageError
from music3_cli.jobs.songs import read_songs
from music3_cli.song.settings import Layer, Sourced, parse_duration, parse_seed, resolve


@pytest.mark.parametrize(
    ("raw", "frames"),
    [
        ("210", 5250),
        ("3:30", 5250),
        ("0:01:30.5", 2262),
        (12, 300),
        ("12s", 300),
        (0.04, 1),
        ("6:00", 9000),
        (8.04, 201),
    ],
)
def test_durations(raw: object, frames: int) -> None:
    assert parse_duration(raw) == frames


@pytest.mark.parametrize("raw", ["0", "0.03", "-5", "361", "6:01", "soon", "", "nan", "inf", "1:2:3:4", "3:75", True])
def test_durations_out_of_range(raw: object) -> None:
    with pytest.raises(ValueError, match="0.04 s to 6:00"):
        parse_duration(raw)


@given(st.integers(1, 9000))
def test_every_frame_count_has_a_duration(frames: int) -> None:
    assert parse_duration(str(frames / 25)) == frames


@pytest.mark.parametrize(("raw", "seed"), [("0", 0), (7, 7), (str(2**64 - 1), 2**64 - 1), ("random", "random")])
def test_seeds(raw: object, seed: object) -> None:
    assert parse_seed(raw) == seed


@pytest.mark.parametrize("raw", ["-1", str(2**64), "1.5", "x", "", True, 1.0])
def test_seeds_out_of_range(raw: object) -> None:
    with pytest.raises(ValueError, match="18446744073709551615"):
        parse_seed(raw)


@pytest.mark.parametrize(
    ("flags", "front", "preset", "expected"),
    [
        ({}, {}, {}, (30, 1.0, "tf32")),
        ({"fast": True}, {}, {}, (16, 2.0, "fp16")),
        ({"fast": True, "steps": "20"}, {}, {}, (20, 2.0, "fp16")),
        ({"fast": True, "precision": "fp32", "shift": "1"}, {}, {}, (16, 1.0, "fp32")),
        ({"fast": True}, {"steps": 40}, {"shift": 3}, (16, 2.0, "fp16")),
        ({"steps": "40"}, {"fast": "true"}, {"shift": 3}, (40, 2.0, "fp16")),
        ({}, {"steps": 40}, {"fast": True, "precision": "tf32"}, (40, 2.0, "tf32")),
        ({"fast": False}, {"fast": True}, {}, (30, 1.0, "tf32")),
        ({}, {"fast": "false", "shift": 2}, {"fast": True}, (30, 2.0, "tf32")),
    ],
)
def test_fast_stands_for_three_settings_of_its_source(flags: dict, front: dict, preset: dict, expected: tuple) -> None:
    layers = [
        Layer(values, dict.fromkeys(values, where))
        for values, where in ((flags, "flag"), (front, "a.txt"), (preset, "preset"))
    ]
    settings = resolve(layers)
    assert tuple(settings[name].value for name in ("steps", "shift", "precision")) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"precision": "bf16"}, "fp32, tf32, fp16"),
        ({"shift": "0"}, "0.1 to 20"),
        ({"shift": "nan"}, "0.1 to 20"),
        ({"fast": "yes"}, "true or false"),
    ],
)
def test_acoustic_settings_out_of_range(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve([Layer(values, dict.fromkeys(values, "a.txt:2"))])


def test_the_strongest_source_wins_and_is_remembered() -> None:
    layers = [
        Layer({"seed": "3", "steps": None}, {"seed": "--seed", "steps": "--steps"}, is_flags=True),
        Layer({"seed": 9, "title": "T"}, {"seed": "a.txt:2", "title": "a.txt:3"}),
        Layer({"steps": 12}, {"steps": "preset x"}),
    ]
    resolved = resolve(layers)
    assert (resolved["seed"].value, resolved["seed"].source) == (3, "--seed")
    assert (resolved["title"].value, resolved["title"].source) == ("T", "a.txt:3")
    assert (resolved["steps"].value, resolved["steps"].source) == (12, "preset x")
    assert (resolved["takes"].value, resolved["takes"].source) == (1, "built-in")


def test_a_wrong_value_is_a_usage_error_on_a_flag_and_an_input_error_in_a_file() -> None:
    with pytest.raises(UsageError, match="--steps: steps '0'"):
        resolve([Layer({"steps": "0"}, {"steps": "--steps"}, is_flags=True)])
    with pytest.raises(InputError, match="a.txt:4: seed -1"):
        resolve([Layer({"seed": -1}, {"seed": "a.txt:4"})])


CAPTION_CASES = [
    ("hi", {}, "the default preset", "built-in"),
    ("---\ncaption: mine\n---\nhi", {}, "mine", "song.txt:2"),
    ("---\ncaption: mine\npreset: folk-fireside\n---\nhi", {}, "mine", "song.txt:2"),
    ("---\ncaption: mine\n---\nhi", {"preset": "folk-fireside"}, None, "preset folk-fireside"),
    ("---\npreset: folk-fireside\n---\nhi", {"caption": "theirs"}, "theirs", "--caption"),
    ("---\npreset: folk-fireside\n---\nhi", {"preset": "city-pop"}, None, "preset city-pop"),
    ("---\ncaption: mine\n---\nhi", {"caption": "theirs", "preset": "city-pop"}, "theirs", "--caption"),
]


@pytest.mark.parametrize(("text", "flags", "caption", "source"), CAPTION_CASES)
def test_which_caption_is_used(text: str, flags: dict[str, object], caption: str | None, source: str) -> None:
    Path("song.txt").write_text(text)
    song = read_songs(["song.txt"], flags, None)[0]
    if source == "built-in":
        assert song.settings["preset"] == Sourced("default", "built-in")
        assert any("no caption was given" in note for note in song.notes)
    else:
        assert song.settings["caption"].source == source
        assert caption is None or song.value("caption") == caption
