"""A song's words on their way from a file to its prompt: read, mended on request, and checked by the lint rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from music3_cli.errors import InputError, Music3Error, UsageError, raise_all
from music3_cli.song.instrumental import complete_caption, instrumental_sheet
from music3_cli.song.limits import frames_to_seconds
from music3_cli.song.lint.check import (
    Caption,
    check_a_caption,
    check_lyrics,
    check_size,
    check_together_with,
    fix_lyrics_file,
)
from music3_cli.song.lint.finding import Finding
from music3_cli.song.lyrics import Lyrics, as_is_lyrics, parse_lyrics
from music3_cli.song.place import text_place
from music3_cli.song.presets import Preset
from music3_cli.song.settings import Sourced
from music3_cli.song.text import SourceText, read_text

INSTRUMENTAL = "--instrumental"
"""What messages call a sheet that no file holds."""


@dataclass(frozen=True)
class Handling:
    """What is done with lyrics and caption before they become a prompt.

    Attributes:
        as_is: nothing: no cleaning, no front matter, no lint.
        fix: mend what lint can mend.
        stops: the severities that stop a run.
        instrumental: no file; a sheet of sections for the wanted duration, and a caption that says so.
        placeholders: values for the preset's placeholders.
    """

    as_is: bool = False
    fix: bool = False
    stops: tuple[str, ...] = ("error",)
    instrumental: bool = False
    placeholders: Mapping[str, str] = field(default_factory=dict)

    @property
    def flags(self) -> tuple[str, ...]:
        """What repeats it on a command line; the caption is named as it was filled and needs no placeholders."""
        if self.instrumental:
            return ("--instrumental",)
        return ("--lyrics", "as-is") if self.as_is else ("--fix-lyrics",) if self.fix else ()


def read_lyrics(file: str, handling: Handling) -> tuple[Lyrics, list[str]]:
    """Read one lyrics file, and tell what reading and mending changed.

    Raises:
        SourceFault: it cannot be read or parsed, or has no words.
    """
    source = read_text(file, as_is=handling.as_is)
    if handling.as_is:
        notes = [f"{source.name}: taken as it is: no cleaning, no lint"]
        if source.text.startswith("---\n"):
            notes.append(f"{source.name}: its front matter counts as lyrics, too, because of --lyrics as-is")
        return as_is_lyrics(source), notes
    notes = [f"{source.name}: {note}" for note in source.notes]
    lyrics = parse_lyrics(source)
    if not handling.fix:
        return lyrics, notes
    mended = fix_lyrics_file(source.text)
    in_file = text_place(source.text)
    for hit in mended.hits:
        line, column = in_file(hit.start)
        words = f": {hit.words!r}" if hit.words else ""
        notes.append(f"{source.name}:{line}:{column}: mended {hit.rule.id}{words}")
    lyrics = parse_lyrics(SourceText(source.name, mended.text))
    offset = len(mended.text) - len(lyrics.text)
    return replace(lyrics, place=lambda position: in_file(mended.origin(position + offset))), notes


def instrumental_lyrics(max_frames: int | None) -> Lyrics:
    """The sheet of an instrumental of about the ceiling's length."""
    sheet = instrumental_sheet(None if max_frames is None else frames_to_seconds(max_frames))
    return Lyrics(SourceText(INSTRUMENTAL, sheet), sheet)


def filled_caption(preset: Preset, handling: Handling) -> str:
    """A preset's caption with the values of `--set`.

    Raises:
        UsageError: a placeholder that the preset does not have.
    """
    try:
        return preset.filled_caption(handling.placeholders)
    except InputError as error:
        raise UsageError(f"--set: {error.message}", hint=error.hint) from None


def check_placeholders_used(caption: Sourced[str], name: str, handling: Handling) -> None:
    """Raise `UsageError` for values of `--set` that no preset's caption takes."""
    if handling.placeholders and not caption.source.startswith("preset "):
        key = next(iter(handling.placeholders))
        raise UsageError(
            f"--set {key}: {name} has its caption from {caption.source}, not from a preset",
            hint="Leave out --set, or choose a preset with --preset.",
        )


def complete_for_instrumental(settings: dict[str, Sourced[Any]]) -> list[str]:
    """Make the caption in `settings` say that nobody sings, and tell so."""
    caption = settings["caption"]
    completed = complete_caption(caption.value)
    if completed == caption.value:
        return []
    settings["caption"] = Sourced(completed, f"{caption.source}, completed for {INSTRUMENTAL}")
    return [
        f"{INSTRUMENTAL}: the caption's vocal part now says that the piece is instrumental (a tendency, no promise)"
    ]


def placed_caption(caption: Sourced[str], lyrics: Lyrics, preset: Preset | None, handling: Handling) -> Caption | None:
    """The caption with its places; None for a packaged preset's, which is tested, and for one completed here."""
    if caption.source.endswith(INSTRUMENTAL):
        return None
    if preset is not None and caption.source.startswith("preset "):
        if preset.packaged and not handling.placeholders:
            return None
        return Caption(caption.value, str(preset.path), preset.filled_place(handling.placeholders))
    front = lyrics.front_matter.get("caption")
    if front is not None and caption.source == f"{lyrics.source.name}:{front.line}":
        return Caption(caption.value, lyrics.source.name, front.place)
    of_flag = caption.source.startswith("--")
    return Caption(caption.value, caption.source, None if of_flag else text_place(caption.value))


def size_warnings(lyrics: Lyrics, caption: str, tokens: int, handling: Handling) -> list[str]:
    """What lint says about a prompt of `tokens`; one that is too long is an error with the checkpoint's own numbers."""
    if handling.as_is:
        return []
    findings = check_size(lyrics, caption, None, tokens)
    return settle([finding for finding in findings if finding.severity == "warning"], handling.stops)


def check_words(
    lyrics: Lyrics, caption: Caption | None, text: str, ceiling: int | None, stops: Sequence[str]
) -> list[str]:
    """Run the lint rules over one song.

    Args:
        caption: None where it is a packaged preset's, which the tests lint.
        text: the caption's text.
        ceiling: frames that were asked for, or None.

    Returns:
        the warnings.

    Raises:
        InputError, ManyErrors: findings of the severities in `stops`.
    """
    findings = check_lyrics(lyrics, ceiling)
    if caption is not None:
        findings += check_a_caption(caption)
    return settle([*findings, *check_together_with(lyrics, text)], stops)


def settle(findings: Sequence[Finding], stops: Sequence[str]) -> list[str]:
    """Raise for findings of the severities in `stops`, and give errors and warnings back as lines."""
    errors: list[Music3Error] = [
        InputError(f"{finding.place}: {finding.message} [{finding.rule}]", hint=finding.advice)
        for finding in findings
        if finding.severity in stops
    ]
    raise_all(errors)
    return [finding.text for finding in findings if finding.severity != "info"]
