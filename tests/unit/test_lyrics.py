"""Front matter, normalisation and what it drops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.errors import InputError
from music3_cli.song.lint.check import check_lyrics
from music3_cli.song.lyrics import normalize_lyrics, parse_lyrics
from music3_cli.song.text import SourceText


def parse(text: str):
    return parse_lyrics(SourceText("a.txt", text))


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("[Verse]\nHi", "[start]\n[verse]\nHi"),
        ("[Verse] lost words\nkept", "[start]\n[verse]\nkept"),
        ("  [A] [B]\nx", "[start]\n[a]\n[b]\nx"),
        ("one [Two] three", "[start]\none\n[two]\nthree"),
        ("a ^ b", "[start]\na\nb"),
        ("[]\nx", "[start]\n[]\nx"),
        ("[open\nNO TAG", "[start]\n[open\nNO TAG"),
        ("x [Open\nY] z", "[start]\nx\n[open\ny]\nz"),
    ],
)
def test_normalisation(text: str, normalised: str) -> None:
    assert normalize_lyrics(text) == normalised


def test_front_matter_and_the_words_behind_it() -> None:
    lyrics = parse(
        "---\ntitle: 1999\nseed: 7\nmax_duration: 3:30\ncaption: |\n  Two\n  lines\n---\n\n\n[verse]\n hi \n"
    )
    values = {name: (item.value, item.line) for name, item in lyrics.front_matter.items()}
    assert values == {"title": ("1999", 2), "seed": (7, 3), "max_duration": (210, 4), "caption": ("Two\nlines\n", 5)}
    assert lyrics.text == "[verse]\n hi \n"
    assert lyrics.first_line == 11


def test_words_without_front_matter_are_untouched() -> None:
    assert parse("\n\n[verse]\nhi").text == "\n\n[verse]\nhi"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("---\ntitle: x\n[verse]", "a.txt:1: front matter opens"),
        ("---\ntitel: x\n---\nhi", "a.txt:2: front matter: unknown field 'titel'"),
        ("---\ntitle: x\ntitle: y\n---\nhi", "a.txt:3: front matter: title stands twice"),
        ("---\nseed: [1, 2]\n---\nhi", "a.txt:2: front matter: seed must be one plain value"),
        ("---\n- a\n---\nhi", "a.txt:2: front matter: lines of the form"),
        ("---\ntitle: a: b\n---\nhi", "a.txt:2: front matter: not valid YAML"),
        ("---\ntitle: x\n---\n  \n", "a.txt: no lyrics"),
        (" \n\t\n", "a.txt: no lyrics"),
    ],
)
def test_faults(text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    assert error.value.message.startswith(message)


def test_an_unknown_field_gets_the_nearest_right_one() -> None:
    with pytest.raises(InputError) as error:
        parse("---\ntitel: x\n---\nhi")
    assert error.value.hint == "Did you mean title?"


def test_dropped_words_have_line_column_and_words() -> None:
    lyrics = parse("---\nseed: 1\n---\n[Verse] Morning light\nOn the pine\n [a] [b] x ")
    lost = [finding for finding in check_lyrics(lyrics, None) if finding.rule == "tag-line-words"]
    assert [(finding.line, finding.column, finding.words) for finding in lost] == [
        (4, 9, "Morning light"),
        (6, 10, "x"),
    ]


@given(st.text(alphabet="abAC7x2 []()^:0\n\t\u00a0\u2028", max_size=60))
def test_no_word_is_lost_without_being_named(text: str) -> None:
    """A line of which normalisation loses a letter has a finding that counts, whatever shape the line has."""
    if not text.strip():
        return
    lyrics = parse_lyrics(SourceText("a.txt", "\n" + text))

    def letters(content: str) -> int:
        return sum(character.isalnum() for character in content)

    told = {f.line for f in check_lyrics(lyrics, None) if f.severity != "info"}
    for number, line in enumerate(lyrics.text.split("\n"), start=lyrics.first_line):
        if letters(normalize_lyrics(line).removeprefix("[start]\n")) < letters(line):
            assert number in told
