"""Output names that every file system takes and that stay in their folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.errors import UsageError
from music3_cli.jobs.naming import fill_template, numbered, output_template, safe_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("夜の歌", "夜の歌"),
        ("CON", "_CON"),
        ("aux.txt", "_aux.txt"),
        ("a/b\\c", "a-b-c"),
        ("../../etc/passwd", "etc-passwd"),
        (" ..  ", "song"),
        ("", "song"),
        ("what? really: yes", "what- really- yes"),
        ("e\u0301", "é"),
        ("a\u202eb\u200b", "ab"),
    ],
)
def test_safe_names(text: str, name: str) -> None:
    assert safe_name(text) == name


@given(st.text())
def test_any_text_becomes_one_safe_name(text: str) -> None:
    name = safe_name(text)
    assert name == Path(name).name != ""
    assert not set(name) & set('<>:"/\\|?*\0\n\r')
    assert name not in (".", "..") and name == name.strip(" .")
    assert len(name.encode()) <= 181
    assert safe_name(name) == name


@given(st.text(min_size=1))
def test_a_field_cannot_leave_the_folder(text: str) -> None:
    path = fill_template("out/{title}.wav", {"title": text})
    assert path.parent == Path("out")


def test_templates(tmp_path: Path) -> None:
    assert output_template(None, 1, 1) == "{id}.{ext}"
    assert output_template(None, 3, 3) == "{id}-take{take}.{ext}"
    assert output_template("out/", 2, 1) == str(Path("out/{id}.{ext}"))
    assert output_template(str(tmp_path), 2, 1) == str(tmp_path / "{id}.{ext}")
    assert output_template("album", 2, 1) == str(Path("album/{id}.{ext}"))
    assert output_template("x.wav", 1, 1) == "x.wav"
    assert output_template("{title}-{seed}", 2, 1) == "{title}-{seed}.{ext}"


@pytest.mark.parametrize(
    ("output", "songs"),
    [("-", 1), ("x.wav", 2), ("x.aiff", 1), ("{nope}.wav", 1), ("{id", 1), ("{0}.wav", 1), ("{id!r}.aac", 1)],
)
def test_wrong_outputs(output: str, songs: int) -> None:
    with pytest.raises(UsageError, match="--output"):
        output_template(output, songs, 1)


def test_numbers_count_up(tmp_path: Path) -> None:
    for name in ("a.wav", "a-2.wav"):
        (tmp_path / name).touch()
    assert numbered(tmp_path / "a.wav") == tmp_path / "a-3.wav"
