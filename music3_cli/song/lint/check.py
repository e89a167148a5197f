"""Runs the checks over one text, or over a song's lyrics and caption together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from music3_cli.song.lint.caption_rules import check_caption
from music3_cli.song.lint.finding import ALL, Finding, Selection, in_order, locate
from music3_cli.song.lint.fix import Mended, fix_text
from music3_cli.song.lint.lyrics_rules import check_amount, check_lines, check_sections
from music3_cli.song.lint.pasted_rules import HEAD_LINE, check_pasted
from music3_cli.song.lint.prompt_rules import (
    check_length,
    check_special_in_caption,
    check_special_in_lyrics,
    check_together,
)
from music3_cli.song.lint.rule import Hit, moved
from music3_cli.song.lint.tag_rules import check_tags
from music3_cli.song.lint.text_rules import check_characters
from music3_cli.song.lyrics import Lyrics, parse_lyrics
from music3_cli.song.place import Place, text_place
from music3_cli.song.text import SourceFault, SourceText


@dataclass(frozen=True)
class Caption:
    """A caption, what messages call the place it stands in, and the places of its characters."""

    text: str
    file: str
    place: Place | None = None


@lru_cache(maxsize=8)
def line_hits(text: str) -> tuple[Hit, ...]:
    """Hits in single lines of lyrics. Checking and mending ask about the same text several times."""
    return (
        *check_characters(text),
        *check_special_in_lyrics(text),
        *check_tags(text),
        *check_pasted(text),
        *check_lines(text),
    )


def sheet_hits(text: str, ceiling: int | None) -> Iterator[Hit]:
    """Hits in the lyrics as a whole. They are found in the sheet as it was meant, with every line's faults mended: a
    verse whose words stand behind its tag is not an empty verse.
    """
    meant = fix_text(text, line_hits)
    for hit in (*check_sections(meant.text), *check_amount(meant.text, ceiling)):
        yield replace(hit, start=meant.origin(hit.start))


def caption_hits(text: str) -> Iterator[Hit]:
    """All hits in a caption that need nothing but the caption."""
    yield from check_characters(text)
    yield from check_special_in_caption(text)
    yield from check_caption(text)


def check_lyrics(
    lyrics: Lyrics, ceiling: int | None, *, selection: Selection = ALL, fixable: bool = True
) -> list[Finding]:
    """Findings in a lyrics file's words, in places of the file."""
    hits = (*line_hits(lyrics.text), *sheet_hits(lyrics.text, ceiling))
    return _located(hits, lyrics.source.name, _place(lyrics), selection, fixable)


def check_a_caption(caption: Caption, *, selection: Selection = ALL, fixable: bool = False) -> list[Finding]:
    """Findings in one caption."""
    return _located(caption_hits(caption.text), caption.file, caption.place, selection, fixable)


def check_together_with(lyrics: Lyrics, caption: str, *, selection: Selection = ALL) -> list[Finding]:
    """Whether lyrics and caption agree, placed in the lyrics."""
    hits = check_together(lyrics.text, caption)
    return _located(hits, lyrics.source.name, _place(lyrics), selection, False)


def check_size(
    lyrics: Lyrics, caption: str, ceiling: int | None, tokens: int | None, *, selection: Selection = ALL
) -> list[Finding]:
    """The prompt's tokens (None: to be estimated), and what they leave for sound, placed in the lyrics."""
    hits = check_length(lyrics.text, caption, ceiling, tokens)
    return _located(hits, lyrics.source.name, _place(lyrics), selection, False)


def _place(lyrics: Lyrics) -> Place:
    return lyrics.place or text_place(lyrics.text, lyrics.first_line)


def _located(hits: Iterable[Hit], file: str, place: Place | None, selection: Selection, fixable: bool) -> list[Finding]:
    return in_order(locate(hit, file, place, fixable=fixable) for hit in selection.hits(hits))


def fix_lyrics_file(text: str, selection: Selection = ALL) -> Mended:
    """Mend the words of a lyrics file and leave its front matter alone.

    Args:
        text: the cleaned text of the whole file. One that cannot be parsed comes back as it is.
    """

    def find(current: str) -> list[Hit]:
        try:
            lyrics = parse_lyrics(SourceText("", current))
        except SourceFault:
            return []
        offset = len(current) - len(lyrics.text)
        hits = selection.hits(line_hits(lyrics.text))
        if offset:
            # There is front matter already; a second one would be sung.
            hits = [hit for hit in hits if hit.rule is not HEAD_LINE]
        # What a section lacks can be told only when all of its lines are right.
        if not any(hit.edits for hit in hits):
            hits = selection.hits(check_sections(lyrics.text))
        return [moved(hit, offset) for hit in hits]

    return fix_text(text, find)


def fix_caption(text: str, selection: Selection = ALL) -> Mended:
    """Mend a caption."""
    return fix_text(text, lambda current: selection.hits(caption_hits(current)))
