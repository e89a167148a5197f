"""Presets on the command line: placeholders, the user's own, faulty ones, and what `lint` and the guide say of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from music3_cli.song.presets import load_preset, packaged_folder, preset_paths, user_folder
from tests.conftest import EXAMPLES, Music3

SONG = EXAMPLES / "short-and-bare.txt"


def mine(name: str, content: str) -> Path:
    user_folder().mkdir(exist_ok=True)
    path = user_folder() / name
    path.write_text(content, encoding="utf-8")
    return path


def test_there_are_enough_of_different_kinds() -> None:
    presets = [load_preset(path.stem) for path in packaged_folder().glob("*.yaml")]
    assert len(presets) >= 24
    assert {preset.vocal for preset in presets} == {"female", "male", "duet", "choir", "instrumental"}
    assert len({preset.description for preset in presets}) == len(presets)
    for preset in presets:
        assert {"key", "bpm"} <= set(preset.placeholders)
        assert ("vocal" in preset.placeholders) == (preset.vocal != "instrumental")


def test_placeholders_are_set(music3: Music3) -> None:
    shown = music3("presets", "show", "default", "--set", "bpm=92", "--set", "key = F minor")
    assert shown.code == 0
    assert "92 BPM" in shown.out and "F minor" in shown.out and "{" not in shown.out
    assert "--set vocal=" in shown.err
    content = json.loads(music3("presets", "show", "default", "--json").out)
    assert content["placeholders"]["bpm"] == "104" and "104 BPM" in content["caption"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["presets", "show", "default", "--set", "bmp=92"], "Did you mean bpm?"),
        (["presets", "show", "default", "--set", "bpm"], "KEY=VALUE was expected"),
        (["presets", "show", "default", "--set", "bpm="], "KEY=VALUE was expected"),
        (["render", SONG, "--show-settings", "--set", "tempo=92"], "no placeholder 'tempo'"),
        (["render", SONG, "--show-settings", "--set", "bpm=92", "--caption", "x"], "from --caption, not from a preset"),
    ],
)
def test_wrong_values_are_usage_errors(music3: Music3, arguments: list[object], message: str) -> None:
    ran = music3(*arguments)
    assert ran.code == 2
    assert message in ran.err


def test_render_takes_values(music3: Music3) -> None:
    ran = music3("render", SONG, "--preset", "neo-soul", "--set", "bpm=71", "--show-settings", "--json")
    settings = json.loads(ran.out)["short-and-bare"]
    assert "71 BPM" in settings["caption"]["value"]
    assert settings["caption"]["source"] == "preset neo-soul"


def test_a_faulty_preset_of_the_user_s_harms_no_other(music3: Music3) -> None:
    mine("broken.yaml", "caption: [")
    mine("half.yml", "caption: At {bpm} BPM\n")
    mine("good.yml", "description: Good\ncaption: A song by a woman\nvocal: female\n")
    mine(".hidden.yaml", "caption: [")
    mine("latin.yaml", "")
    (user_folder() / "latin.yaml").write_bytes("caption: café".encode("cp1252"))
    listed = music3("presets", "list")
    assert listed.code == 0
    names = [line.split("\t")[0] for line in listed.out.splitlines()]
    assert "good" in names and "default" in names
    assert not {"broken", "half", "latin", ".hidden"} & set(names)
    for name in ("broken", "half", "latin"):
        assert f"{name}: left out: " in listed.err
    content = {entry["name"]: entry for entry in json.loads(music3("presets", "list", "--json").out)}
    assert "{bpm} has no default" in content["half"]["error"]
    assert content["good"]["packaged"] is False
    assert music3("presets", "path", "broken").out.strip() == str(user_folder() / "broken.yaml")
    assert music3("presets", "show", "broken").code == 4
    assert music3("render", SONG, "--preset", "broken", "--show-settings").code == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("caption: a {BPM} b", "'{BPM}' in the caption is no placeholder"),
        ("caption: a { b", "is no placeholder"),
        ("caption: a\nplaceholders: {bpm: 3}", "placeholder bpm does not occur in the caption"),
        ("caption: a {bpm}\nplaceholders: {bpm: [1]}", "placeholders must be a table of plain values"),
        ("caption: a\nplaceholders: [bpm]", "placeholders must be a table"),
        ("caption: {a: b}", "caption is missing or empty"),
        ("\n\nvocals: female\ncaption: a", ":3: preset: unknown field 'vocals'"),
        ("caption: a\nsettings: {steps: 10, sped: 1}", "unknown setting 'sped'"),
        ("[" * 2000, "without end"),
        ("caption: a\x07", "not valid YAML"),
    ],
)
def test_faults_say_what_and_where(music3: Music3, content: str, message: str) -> None:
    mine("odd.yaml", content)
    ran = music3("presets", "show", "odd")
    assert ran.code == 4
    assert message in ran.err and "odd.yaml" in ran.err


def test_settings_and_placeholders_of_the_user_s(music3: Music3) -> None:
    mine(
        "own.yaml", "caption: Folk at {bpm2} BPM\nplaceholders: {bpm2: 60}\nsettings: {steps: 12, max_duration: 1:30}\n"
    )
    ran = music3("render", SONG, "--preset", "own", "--show-settings", "--json")
    settings = json.loads(ran.out)["short-and-bare"]
    assert settings["steps"] == {"value": 12, "source": "preset own"}
    assert settings["max_duration"]["value"] == 90 * 25
    assert settings["caption"]["value"] == "Folk at 60 BPM"


def test_of_two_endings_one_wins_and_stays() -> None:
    mine("twice.yml", "caption: b")
    mine("twice.yaml", "caption: a")
    assert preset_paths()["twice"][0].suffix == ".yaml"
