"""Rules about lyrics as a whole: blanks, sections, and how much there is to sing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from music3_cli.song.estimate import song_length, syllables
from music3_cli.song.limits import clock, frames_to_seconds
from music3_cli.song.lint.rule import Edit, Hit, Rule, register
from music3_cli.song.lyrics import LEADING_TAGS
from music3_cli.song.sections import REPEATED_TAGS, WORDLESS_TAGS, is_direction, split_sections

EMPTY = register(
    Rule(
        "lyrics-empty",
        "error",
        "lyrics",
        "No lyrics at all. The model takes no empty text, for instrumentals neither.",
        "{what}",
        "{hint}",
    )
)
BLANK_LINE = register(
    Rule(
        "lyrics-blank-line",
        "info",
        "lyrics",
        "A line that looks empty and is made of blanks. They are part of the prompt, and a changed prompt is another "
        "song.",
        "a line of {count} blanks looks empty and is part of the prompt",
        "Empty the line.",
        fix="empties it",
        example="[verse]\nMorning light on the pine\n   \nStay with me\n[outro]\n",
    )
)
LINE_SPACES = register(
    Rule(
        "lyrics-line-spaces",
        "info",
        "lyrics",
        "Blanks at the ends of a line, tabs, or several blanks between words. They are part of the prompt.",
        "surplus blanks in {words} are part of the prompt",
        "Write one blank between words and none at the ends of a line.",
        fix="removes them",
        example="[verse]\nMorning  light on the pine \nStay with me\n[outro]\n",
    )
)
NO_TAGS = register(
    Rule(
        "lyrics-no-tags",
        "warning",
        "lyrics",
        "No section tag anywhere. The model then has to guess where verse and chorus are.",
        "there is no section tag such as [verse]",
        "Put [verse], [chorus] and so on above the parts, each alone on its line.",
        example="Morning light on the pine\nStay with me\n",
    )
)
TAGS_ONLY = register(
    Rule(
        "lyrics-tags-only",
        "warning",
        "lyrics",
        "Section tags without a single word and without (instrumental). Such songs often stop after one section.",
        "there are section tags, but nothing below them",
        "For an instrumental write (instrumental) below every tag, or render with --instrumental; else add the words.",
        fix="writes (instrumental) below every tag",
        example="[intro]\n[verse]\n[chorus]\n[outro]\n",
    )
)
EMPTY_SECTION = register(
    Rule(
        "lyrics-empty-section",
        "warning",
        "lyrics",
        "A verse or a chorus without words among sections that have some. The model does not know that a chorus "
        "comes back: it sees none.",
        "{words} has no words; the model does not repeat an earlier one",
        "Write its words out again.",
        fix="writes the words of the last section of that name, if it is a kind of chorus",
        example="[chorus]\nStay with me\n[verse]\nMorning light on the pine\n[chorus]\n[outro]\n",
    )
)
NO_ENDING = register(
    Rule(
        "lyrics-no-ending",
        "warning",
        "lyrics",
        "The last section is no closing one. Songs without it tend to break off or to run into the ceiling.",
        "the last section is {words}: without a closing one the song may break off",
        "Put [outro] at the end, alone on its line.",
        fix="adds [outro]",
        example="[verse]\nMorning light on the pine\n",
    )
)
TOO_FEW = register(
    Rule(
        "lyrics-too-few-words",
        "warning",
        "lyrics",
        "Few words for a song, or far fewer than the ceiling asked for has room for. The model stretches or repeats "
        "them into a drone. A ceiling is no target: a song ends when its words are sung.",
        "there is little to sing, {length} ({basis}){ceiling}",
        "Add words or sections.",
        example="[verse]\nhey\n[outro]\n",
    )
)
TOO_MANY = register(
    Rule(
        "lyrics-too-many-words",
        "warning",
        "lyrics",
        "More words than can be sung before the ceiling, even fast. The song is cut off there.",
        "the song would take {length} ({basis}), and the ceiling is {ceiling}",
        "Raise max_duration or shorten the lyrics.",
        example="---\nmax_duration: 2\n---\n[verse]\n"
        + "Morning light on the pine, stay with me tonight\n" * 3
        + "[outro]\n",
    )
)
LONG_LINE = register(
    Rule(
        "lyrics-long-line",
        "warning",
        "lyrics",
        "A line that is longer than a breath. Line ends tell the model where a phrase ends.",
        "a line of {count} syllables, beginning with {words}",
        "Break it where a singer would breathe, after about 8 to 16 syllables.",
        example="[verse]\n" + "morning light on the pine and " * 6 + "the river\n[outro]\n",
    )
)

_SHORTEST_SYLLABLES = 12
_LONGEST_LINE = 40
_CLOSING = re.compile(r"\b(?:outro|fade|end|ending|coda)\b")
_SPACES = re.compile(r"^[ \t\u3000]+|[ \t\u3000]+$|(?<=\S)(?:[ ]{2,}|[ ]*\t[ \t]*)(?=\S)")


def check_lines(text: str) -> Iterator[Hit]:
    """Blanks, line by line."""
    start = 0
    for line in text.split("\n"):
        if line and not line.strip():
            yield BLANK_LINE.hit(start, line, [Edit(start, start + len(line), "")], count=len(line))
        elif not LEADING_TAGS.match(line):  # blanks around tags are dropped by the contract
            edges = list(_SPACES.finditer(line))
            if edges:
                edits = [
                    Edit(start + m.start(), start + m.end(), " " if m.start() > 0 and m.end() < len(line) else "")
                    for m in edges
                ]
                yield LINE_SPACES.hit(start + edges[0].start(), line, edits)
        start += len(line) + 1


def check_sections(text: str) -> Iterator[Hit]:
    """The sheet as a whole."""
    sections = split_sections(text)
    tagged = [section for section in sections if section.name]
    if not sections:
        return
    if not tagged:
        yield NO_TAGS.hit(len(text) - len(text.lstrip()))
        return
    if not any(section.lines for section in sections):
        yield TAGS_ONLY.hit(
            tagged[0].start, edits=[Edit(s.body_start, s.body_start, _below(text, s.body_start)) for s in tagged]
        )
    elif any(section.words for section in sections):
        spoken: dict[str, str] = {}
        for section in tagged:
            if section.lines:
                spoken[section.name] = "\n".join(section.lines)
            elif section.name not in WORDLESS_TAGS and section.name in ("verse", "bridge", *REPEATED_TAGS):
                again = spoken.get(section.name) if section.name in REPEATED_TAGS else None
                new = _below(text, section.body_start, again) if again else ""
                edits = [Edit(section.body_start, section.body_start, new)] if new else []
                yield EMPTY_SECTION.hit(section.start, f"[{section.name}]", edits)
    last = tagged[-1].name
    if last != "outro" and not _CLOSING.search(last):
        end = len(text.rstrip())
        yield NO_ENDING.hit(tagged[-1].start, f"[{last}]", [Edit(end, len(text), "\n\n[outro]\n")])


def _below(text: str, at: int, words: str = "(instrumental)") -> str:
    """What to insert at offset `at` so that `words` stand on lines of their own below a tag."""
    return f"{words}\n" if at == 0 or text[at - 1] == "\n" else f"\n{words}\n"


def check_amount(text: str, ceiling: int | None) -> Iterator[Hit]:
    """How much there is to sing, against the ceiling in frames that was asked for (None: the model's limit)."""
    length = song_length(text)
    first = len(text) - len(text.lstrip())
    if ceiling is not None and length.syllables and length.low > frames_to_seconds(ceiling):
        yield TOO_MANY.hit(first, length=length.text, basis=length.basis, ceiling=clock(frames_to_seconds(ceiling)))
    elif length.syllables:
        room = frames_to_seconds(ceiling) if ceiling is not None else 0.0
        if length.syllables < _SHORTEST_SYLLABLES or length.high < room / 4:
            against = f"; the ceiling is {clock(room)}" if ceiling is not None else ""
            yield TOO_FEW.hit(first, length=length.text, basis=length.basis, ceiling=against)
    yield from _long_lines(text)


def _long_lines(text: str) -> Iterator[Hit]:
    start = 0
    for line in text.split("\n"):
        if len(line) >= _LONGEST_LINE and not is_direction(line) and not LEADING_TAGS.match(line):
            count = syllables(line)
            if count > _LONGEST_LINE:
                yield LONG_LINE.hit(start, line.strip()[:40], count=count)
        start += len(line) + 1
