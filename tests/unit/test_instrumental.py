"""Instrumentals: the sheet fits the duration, and the caption says so."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from music3_cli.song.estimate import song_length, syllables
from music3_cli.song.instrumental import complete_caption, instrumental_sheet, is_instrumental_caption
from music3_cli.song.lint.check import check_lyrics, check_together_with, line_hits
from music3_cli.song.lyrics import normalize_lyrics, parse_lyrics
from music3_cli.song.presets import load_preset, packaged_folder
from music3_cli.song.sections import GUIDE_TAGS, section_name, split_sections
from music3_cli.song.text import SourceText
from tests.conftest import Music3


@given(st.floats(min_value=0.04, max_value=400.0))
def test_a_sheet_grows_with_the_duration_and_is_clean(seconds: float) -> None:
    sheet = instrumental_sheet(seconds)
    sections = split_sections(sheet)
    assert len(sections) == max(2, round(min(seconds, 360.0) / 20.0))
    assert {section.name for section in sections} <= set(GUIDE_TAGS)
    assert all(section.lines == ("(instrumental)",) for section in sections)
    assert not list(line_hits(sheet))
    lyrics = parse_lyrics(SourceText("sheet", sheet))
    assert not check_lyrics(lyrics, None)
    assert normalize_lyrics(sheet) == f"[start]\n{sheet}"


def test_without_a_duration_it_is_three_minutes() -> None:
    assert instrumental_sheet(None) == instrumental_sheet(180.0)
    assert instrumental_sheet(180.0).startswith("[intro]\n(instrumental)\n")
    assert instrumental_sheet(180.0).endswith("[outro]\n(instrumental)\n")


def test_every_preset_can_be_made_instrumental() -> None:
    for path in packaged_folder().glob("*.yaml"):
        preset = load_preset(path.stem)
        caption = preset.filled_caption()
        completed = complete_caption(caption)
        assert is_instrumental_caption(completed)
        assert complete_caption(completed) == completed
        assert (completed == caption) == (preset.vocal == "instrumental")
        assert completed.index("Arrangement:") > completed.index("Vocal Details:")
        if preset.vocal != "instrumental":
            assert "lead instrument is the " in completed
            assert caption.split("Vocal Details:")[1].split("Arrangement:")[0].strip() not in completed


def test_a_short_caption_gets_a_paragraph_with_its_own_lead() -> None:
    completed = complete_caption("Slow blues with a cello and a piano")
    assert completed.startswith("Slow blues with a cello and a piano\n\nVocal Details:\n")
    assert "The lead instrument is the cello," in completed
    assert "is the piano," in complete_caption("Slow blues")


def test_words_and_caption_must_agree() -> None:
    sheet = parse_lyrics(SourceText("a", instrumental_sheet(60)))
    song = parse_lyrics(SourceText("a", "[verse]\nPaper lanterns\n[outro]\n"))
    sung, played = "Folk, sung by a female alto.", "Folk. This piece is purely instrumental, with a cello lead."
    assert [f.rule for f in check_together_with(sheet, sung)] == ["prompt-mismatch"]
    assert [f.rule for f in check_together_with(song, played)] == ["prompt-mismatch"]
    assert not check_together_with(sheet, played) and not check_together_with(song, sung)


def test_render_settings_of_an_instrumental(music3: Music3) -> None:
    ran = music3("render", "--instrumental", "--preset", "arena-rock", "--show-settings", "--json")
    caption = json.loads(ran.out)["instrumental"]["caption"]
    assert "purely instrumental" in caption["value"]
    assert caption["source"] == "preset arena-rock, completed for --instrumental"
    default = json.loads(music3("render", "--instrumental", "--show-settings", "--json").out)["instrumental"]
    assert default["preset"] == {"value": "cinematic-orchestral-instrumental", "source": "built-in"}
    both = music3("render", "--instrumental", "song.txt")
    assert both.code == 2 and "Leave out one of the two" in both.err


def test_section_names() -> None:
    names = {
        "Verse 1": "verse",
        "CHORUS": "chorus",
        "Pre Chorus": "pre-chorus",
        "2nd": None,
        "Final Chorus": "chorus",
        "verse two": "verse",
        "副歌": "chorus",
        "主歌2": "verse",
        "サビ": "chorus",
        "Refrão": "chorus",
        "Strophe II": "verse",
        "guitar solo": "solo",
        "morning": None,
        "verses of the night": None,
        "": None,
        "1": None,
    }
    assert {text: section_name(text) for text in names} == names


def test_syllables_by_script() -> None:
    counts = {
        "morning light": 3,
        "wave": 1,
        "the ocean": 3,
        "papierowy lampion": 6,
        "бумажные огни": 6,
        "纸灯漂": 3,
        "きょう": 2,
        "등불": 2,
        "": 0,
        "...": 0,
    }
    assert {text: syllables(text) for text in counts} == counts


@given(st.text(max_size=200))
def test_a_length_is_three_numbers_in_order(text: str) -> None:
    length = song_length(text)
    assert 0 <= length.low <= length.typical <= length.high
