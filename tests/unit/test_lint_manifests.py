"""Lint of manifests and presets: texts are found inside YAML, JSON, JSON lines and CSV, with the places of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.song.lint.files import Options, lint_text
from music3_cli.song.lint.manifest import read_manifest
from music3_cli.song.place import scalar_place, text_place
from music3_cli.song.text import SourceFault, SourceText
from tests.conftest import Music3

WORDS = "[verse] Paper lanterns on the water\nCarry every wish we wrote\n[outro]\n"
MANIFESTS = {
    "block.yaml": (
        "defaults:\n  preset: neo-soul\nsongs:\n  - lyrics_text: |\n      [intro]\n"
        "      [verse] Paper lanterns on the water\n      Carry every wish we wrote\n      [outro]\n",
        (6, 15),
    ),
    "quoted.yaml": (
        'songs:\n- {preset: neo-soul, lyrics_text: "[verse] Paper lanterns\\nCarry every wish we wrote\\n[outro]"}\n',
        (2, 44),
    ),
    "single.yml": (
        "songs:\n- preset: neo-soul\n  lyrics_text: '[verse] It''s a paper lantern\n\n"
        "    and carries every wish\n\n    [outro]'\n",
        (3, 25),
    ),
    "songs.json": (json.dumps({"songs": [{"lyrics_text": WORDS, "preset": "neo-soul"}]}, indent=1), (4, 28)),
    "list.json": (json.dumps([{"preset": "neo-soul", "lyrics_text": "\U0001f3ee\n" + WORDS}]), (1, 63)),
    "songs.jsonl": ("\n" + json.dumps({"preset": "neo-soul", "lyrics_text": WORDS}) + "\n", (2, 48)),
    "songs.csv": ('title,preset,lyrics_text\n"a ""b""",neo-soul,"' + WORDS + '"\n', (2, 29)),
}


def lint_json(music3: Music3, *arguments: object) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(music3("lint", "--json", *arguments).out)["findings"]
    return findings


@pytest.mark.parametrize("name", MANIFESTS)
def test_words_are_found_where_they_stand(music3: Music3, name: str) -> None:
    content, place = MANIFESTS[name]
    Path(name).write_text(content, encoding="utf-8")
    found = [f for f in lint_json(music3, name) if f["rule"] == "tag-line-words"]
    assert [(f["file"], f["line"], f["column"]) for f in found] == [(name, *place)]
    assert found[0]["words"] in ("Paper lanterns on the water", "Paper lanterns", "It's a paper lantern")
    line, column = place
    assert content.split("\n")[line - 1][column - 1 :].startswith(("Paper", "It''s"))
    assert not found[0]["fixable"]


def test_files_are_linted_once_beside_the_manifest(music3: Music3) -> None:
    Path("sub").mkdir()
    Path("sub/a.txt").write_text(WORDS)
    Path("sub/cap.txt").write_text("A song with no drums.")
    song = "- {lyrics: a.txt, caption_file: cap.txt}\n"
    Path("sub/songs.yaml").write_text(f"songs:\n{song}{song}- {{lyrics: b.txt}}\n")
    found = lint_json(music3, "sub/songs.yaml")
    assert [f["place"] if "place" in f else (f["file"], f["line"]) for f in found if f["rule"] == "tag-line-words"] == [
        ("sub/a.txt", 1)
    ]
    assert [f["file"] for f in found if f["rule"] == "caption-negative"] == ["sub/cap.txt"]
    missing = [f for f in found if f["rule"] == "file-unreadable"]
    assert [(f["file"], f["line"], f["column"], f["message"]) for f in missing] == [
        ("sub/songs.yaml", 4, 12, "b.txt: no such file")
    ]


def test_fixing_a_manifest_mends_the_files_that_it_names(music3: Music3) -> None:
    Path("a.txt").write_text(WORDS)
    manifest = "songs:\n- lyrics: a.txt\n"
    Path("songs.yaml").write_text(manifest)
    assert music3("lint", "--fix", "songs.yaml").code == 0
    assert Path("a.txt").read_text() == WORDS.replace("] P", "]\nP")
    assert Path("songs.yaml").read_text() == manifest


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("a.yaml", "songs: [", 1, "not valid YAML"),
        ("a.yaml", "- a\n- b\n", 0, "each a table of fields"),
        ("a.yaml", "songs: []\n", 0, "no songs"),
        ("a.yaml", "[" * 3000, 0, "without end"),
        ("a.json", '{"songs": [\n{"lyrics": }]}', 2, "not valid JSON"),
        ("a.json", "[" * 100_000, 0, "without end"),
        ("a.jsonl", '{"lyrics": "a"}\n[1]\n', 2, "an object"),
        ("a.csv", "name,words\na,b\n", 1, "must name the columns"),
        ("a.csv", "lyrics,preset\na.txt,default,more\n", 2, "3 cells for 2 columns"),
        ("a.csv", "", 0, "no songs"),
    ],
)
def test_faulty_manifests(name: str, content: str, line: int, message: str) -> None:
    findings = lint_text(content.encode(), name, None, Options()).findings
    assert [finding.rule for finding in findings] == ["manifest-invalid"]
    assert message in findings[0].message and findings[0].line == line and findings[0].advice


def test_values_in_a_manifest(music3: Music3) -> None:
    Path("songs.yaml").write_text("songs:\n- preset: neo-sol\n  max_duration: soon\n- instrumental: true\n")
    found = {f["rule"]: f for f in lint_json(music3, "songs.yaml")}
    assert set(found) == {"preset-unknown", "manifest-invalid", "manifest-no-lyrics"}
    assert (found["preset-unknown"]["line"], found["preset-unknown"]["column"]) == (2, 11)
    assert "Did you mean neo-soul?" in found["preset-unknown"]["advice"]
    assert found["manifest-no-lyrics"]["message"] == "song 1 has no lyrics"


def test_a_preset_file_is_linted_with_its_places(music3: Music3) -> None:
    Path("mine.yaml").write_text(
        "description: My folk\nvocal: male\nplaceholders: {bpm: '92', key: A minor}\n"
        "caption: |\n  Folk at {bpm} BPM in {key} with a female alto\n  and without drums.\n"
    )
    found = {f["rule"]: f for f in lint_json(music3, "mine.yaml")}
    assert {"preset-vocal", "caption-negative", "caption-short", "caption-parts"} == set(found)
    assert (found["caption-negative"]["line"], found["caption-negative"]["column"]) == (6, 7)


words = st.text(alphabet="ab'\"\\:#,- \n\t[]é夜\U0001f3ee", min_size=1, max_size=30)


@given(words, st.sampled_from(["json", "jsonl", "csv", "yaml"]))
def test_every_visible_character_is_placed_on_itself(text: str, ending: str) -> None:
    """In every container, the place of a character that was not escaped is that character."""
    import csv
    import io

    import yaml

    if not text.strip():
        return
    song = {"lyrics_text": text}
    if ending == "json":
        source = json.dumps({"songs": [song]}, ensure_ascii=False, indent=2)
    elif ending == "jsonl":
        source = json.dumps(song)
    elif ending == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([["lyrics_text", "preset"], [text, "default"]])
        source = out.getvalue()
    else:
        source = yaml.safe_dump({"songs": [song]}, allow_unicode=True)
    try:
        songs = read_manifest(SourceText("m", source), f".{ending}")
    except SourceFault:
        return
    value = songs[0].fields["lyrics_text"]
    assert value.text == text
    lines = source.split("\n")
    for offset, character in enumerate(text):
        line, column = value.place(offset)
        there = lines[line - 1][column - 1 : column]
        if not character.isspace() and there != "\\":
            assert there == character or (ending == "jsonl" and not character.isascii()), (source, offset)


@given(st.text(alphabet="ab \n", max_size=40))
def test_a_plain_text_is_placed_by_its_line_ends(text: str) -> None:
    place = text_place(text, first_line=5)
    for offset in range(len(text)):
        line, column = place(offset)
        assert text.split("\n")[line - 5][: column - 1] == text[:offset].rpartition("\n")[2]


def test_a_scalar_with_other_escapes_is_placed_at_its_beginning() -> None:
    source = 'caption: "\\N\\L a"'
    place = scalar_place(source, 9, len(source), "\x85\u2028 a")
    assert place(0) in {(1, 10), (1, 11)}
