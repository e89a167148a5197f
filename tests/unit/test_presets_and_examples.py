"""What ships: every preset follows the caption guide, every example is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from music3_cli.errors import InputError
from music3_cli.song.caption import clean_caption
from music3_cli.song.lint.files import Options, lint_file
from music3_cli.song.presets import Preset, load_preset, packaged_folder, preset_paths, user_folder
from tests.conftest import EXAMPLES, Music3

PRESETS = sorted(path.stem for path in packaged_folder().glob("*.yaml"))
LYRICS = sorted(EXAMPLES.glob("*.txt"))


@pytest.fixture(params=PRESETS)
def preset(request: pytest.FixtureRequest) -> Preset:
    return load_preset(request.param)


def test_there_are_enough() -> None:
    assert len(PRESETS) >= 8 and "default" in PRESETS
    assert len(LYRICS) >= 3


def test_captions_follow_the_guide(preset: Preset) -> None:
    caption = preset.filled_caption()
    assert 250 <= len(caption.split()) <= 450
    parts = [caption.index(part) for part in ("Global Metadata", "Vocal Details", "Arrangement")]
    assert parts == sorted(parts)
    if preset.vocal == "instrumental":
        assert "instrumental" in caption.lower()
    else:
        assert re.search(r"\b(fe)?male\b", caption[parts[1] : parts[2]])
    assert "{" not in caption


def test_cleaning_leaves_a_caption_s_words_alone(preset: Preset) -> None:
    caption = preset.filled_caption()
    assert clean_caption(caption).split() == caption.split()


@pytest.mark.parametrize("path", LYRICS, ids=lambda path: path.stem)
def test_examples_pass_lint(path: Path) -> None:
    assert lint_file(str(path), None, Options()).findings == []


def test_presets_pass_lint(preset: Preset) -> None:
    assert lint_file(str(preset.path), None, Options()).findings == []


def test_a_preset_of_the_user_s_overrides_a_packaged_one() -> None:
    user_folder().mkdir()
    (user_folder() / "default.yaml").write_text("caption: mine {key}\nplaceholders: {key: A minor}\n")
    assert load_preset("default").filled_caption() == "mine A minor"
    assert load_preset("default").filled_caption({"key": "E"}) == "mine E"
    assert preset_paths()["default"] == (user_folder() / "default.yaml", False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("caption: [", "not valid YAML"),
        ("- x", "a table of fields was expected"),
        ("caption: ''", "caption is missing or empty"),
        ("capton: x", "unknown field 'capton'"),
        ("caption: a {key}", "{key} has no default"),
        ("caption: a\nvocal: robot", "one of female"),
        ("caption: a\nsettings: {speed: 3}", "unknown setting 'speed'"),
    ],
)
def test_faulty_presets(content: str, message: str) -> None:
    user_folder().mkdir()
    (user_folder() / "mine.yaml").write_text(content)
    with pytest.raises(InputError) as error:
        load_preset("mine")
    assert message in error.value.message and "mine.yaml" in error.value.message


def test_listing_and_showing(music3: Music3) -> None:
    listed = music3("presets", "list")
    assert listed.code == 0 and all(name in listed.out for name in PRESETS)
    shown = music3("presets", "show", "default")
    assert shown.out.strip() == load_preset("default").filled_caption()
    assert music3("presets", "path", "default").out.strip() == str(load_preset("default").path)
    unknown = music3("presets", "show", "defualt")
    assert unknown.code == 4 and "Did you mean default?" in unknown.err
