"""Lyrics: front matter, and the model's normalisation.

The normalisation is the model's contract (spec section 2) and is applied to the letter; what it would lose is found
by `song/lint`, so that nothing is lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

import yaml

from music3_cli.song.place import Place, scalar_place
from music3_cli.song.text import SourceFault, SourceText

FRONT_MATTER_FIELDS = (
    "title",
    "artist",
    "caption",
    "preset",
    "seed",
    "max_duration",
    "steps",
    "shift",
    "precision",
    "fast",
)

_FENCE = re.compile(r"---[ \t]*\n")
LEADING_TAGS = re.compile(r"[ \t]*((?:\[[^\]]+\][ \t]*)+)")
TAG = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True)
class FrontMatterValue:
    """A field's value, its line, and the place of every character of its text."""

    value: object
    line: int
    place: Place


@dataclass(frozen=True)
class Lyrics:
    """One lyrics file.

    Attributes:
        source: where it came from, for messages.
        text: the words, exactly as the model's contract takes them.
        first_line: the line of the file on which `text` begins.
        front_matter: the fields at the file's head.
        place: where the characters of `text` stand, if not simply from `first_line` on.
    """

    source: SourceText
    text: str
    first_line: int = 1
    front_matter: Mapping[str, FrontMatterValue] = field(default_factory=dict)
    place: Place | None = field(default=None, repr=False, compare=False)


def parse_lyrics(source: SourceText) -> Lyrics:
    """Split front matter from words. Blank lines between the two belong to neither.

    Raises:
        SourceFault: front matter that is not closed, not flat YAML, or has unknown fields; no words at all.
    """
    front_matter: dict[str, FrontMatterValue] = {}
    text, first_line = source.text, 1
    opening = _FENCE.match(text)
    if opening:
        closing = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE).search(text, opening.end())
        if closing is None:
            raise SourceFault(
                "front-matter",
                source.name,
                "front matter opens with --- but is never closed",
                line=1,
                hint="Put a line with --- after the last field, or delete the first line.",
            )
        front_matter = _parse_front_matter(text, opening.end(), closing.start(), source.name)
        blank = re.compile(r"(?:[ \t]*\n)*").match(text, closing.end())
        start = blank.end() if blank else closing.end()
        first_line, text = text[:start].count("\n") + 1, text[start:]
    if not text.strip():
        raise SourceFault(
            "lyrics-empty",
            source.name,
            "no lyrics; at least one line of words or section tags was expected",
            hint="For an instrumental, write section tags such as [intro], each followed by a line (instrumental).",
        )
    return Lyrics(source, text, first_line, front_matter)


def as_is_lyrics(source: SourceText) -> Lyrics:
    """The whole text as lyrics: nothing is split off, front matter neither.

    Raises:
        SourceFault: nothing but blanks, which the model does not take.
    """
    if not source.text.strip():
        raise SourceFault("lyrics-empty", source.name, "no lyrics; the model does not take an empty text")
    return Lyrics(source, source.text)


def _parse_front_matter(text: str, start: int, end: int, name: str) -> dict[str, FrontMatterValue]:
    block = text[start:end]

    def bad(line: int, what: str, hint: str = "") -> SourceFault:
        return SourceFault("front-matter", name, f"front matter: {what}", line=line, hint=hint)

    try:
        node = yaml.compose(block, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        raise bad(
            (mark.line if mark else 0) + 2, f"not valid YAML ({problem})", "Quote text that has a colon in it."
        ) from None
    except RecursionError:
        raise bad(2, "tables inside tables without end; lines of the form `field: value` were expected") from None
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise bad(2, "lines of the form `field: value` were expected")
    values: dict[str, FrontMatterValue] = {}
    for key_node, value_node in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 2
        if key not in FRONT_MATTER_FIELDS:
            near = get_close_matches(key, FRONT_MATTER_FIELDS, n=1)
            known = f"Did you mean {near[0]}?" if near else f"Known fields: {', '.join(FRONT_MATTER_FIELDS)}."
            raise bad(line, f"unknown field {key!r}", known)
        if key in values:
            raise bad(line, f"{key} stands twice (first on line {values[key].line})")
        if not isinstance(value_node, yaml.ScalarNode):
            raise bad(line, f"{key} must be one plain value, not a list or a table")
        try:
            value = yaml.SafeLoader("").construct_object(value_node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError):  # PyYAML's own, for a tag that does not fit
            value = value_node.value
        if any("\ud800" <= character <= "\udfff" for character in value_node.value):
            raise bad(line, f"{key} has half a character (an escape \\ud800 to \\udfff)", "Write the character itself.")
        # Text stays as written (a title may be 1999 or "yes"); numbers keep YAML's reading, which knows 3:30.
        is_text = key not in ("seed", "max_duration")
        place = scalar_place(
            text, start + value_node.start_mark.index, start + value_node.end_mark.index, value_node.value
        )
        values[key] = FrontMatterValue(value_node.value if is_text else value, line, place)
    return values


def normalize_lyrics(text: str) -> str:
    """The model's lyrics normalisation, spec section 2, steps in this order:

    1. split on newlines; a line that begins (after blanks) with tags keeps only those tags;
    2. a new line after every `] `; 3. before every ` [`; 4. for every ` ^ `;
    5. text inside brackets in lower case; 6. `[start]` on a line of its own in front.
    """
    lines = []
    for line in text.split("\n"):
        tags = LEADING_TAGS.match(line)
        lines.append(tags.group(1).strip() if tags else line)
    joined = "\n".join(lines).replace("] ", "]\n").replace(" [", "\n[").replace(" ^ ", "\n")
    # No tag ends behind the last bracket; looking there for each opening one would take quadratic time.
    last = joined.rfind("]") + 1
    return "[start]\n" + TAG.sub(lambda tag: f"[{tag.group(1).lower()}]", joined[:last]) + joined[last:]
