"""Lyrics: front matter, the model's normalisation, and what that normalisation drops.

The normalisation is the model's contract (spec section 2) and is applied to the letter; `dropped_words` tells
where it would lose words, so that nothing is lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

import yaml

from music3_cli.errors import InputError
from music3_cli.song.text import SourceText

FRONT_MATTER_FIELDS = ("title", "artist", "caption", "preset", "seed", "max_duration")

_FENCE = re.compile(r"---[ \t]*\n")
_LEADING_TAGS = re.compile(r"[ \t]*((?:\[[^\]]+\][ \t]*)+)")
_TAG = re.compile(r"\[([^\]]+)\]")


@dataclass(frozen=True)
class FrontMatterValue:
    value: object
    line: int


@dataclass(frozen=True)
class Lyrics:
    """One lyrics file.

    Attributes:
        source: where it came from, for messages.
        text: the words, exactly as the model's contract takes them.
        first_line: the line of the file on which `text` begins.
        front_matter: the fields at the file's head.
    """

    source: SourceText
    text: str
    first_line: int = 1
    front_matter: Mapping[str, FrontMatterValue] = field(default_factory=dict)


def parse_lyrics(source: SourceText) -> Lyrics:
    """Split front matter from words. Blank lines between the two belong to neither.

    Raises:
        InputError: front matter that is not closed, not flat YAML, or has unknown fields; no words at all.
    """
    front_matter: dict[str, FrontMatterValue] = {}
    text, first_line = source.text, 1
    opening = _FENCE.match(text)
    if opening:
        closing = re.compile(r"^---[ \t]*(?:\n|\Z)", re.MULTILINE).search(text, opening.end())
        if closing is None:
            raise InputError(
                f"{source.name}:1: front matter opens with --- but is never closed",
                hint="Put a line with --- after the last field, or delete the first line.",
            )
        front_matter = _parse_front_matter(text[opening.end() : closing.start()], source.name)
        blank = re.compile(r"(?:[ \t]*\n)*").match(text, closing.end())
        start = blank.end() if blank else closing.end()
        first_line, text = text[:start].count("\n") + 1, text[start:]
    if not text.strip():
        raise InputError(
            f"{source.name}: no lyrics; at least one line of words or section tags was expected",
            hint="For an instrumental, write section tags such as [intro], each followed by a line (instrumental).",
        )
    return Lyrics(source, text, first_line, front_matter)


def _parse_front_matter(block: str, name: str) -> dict[str, FrontMatterValue]:
    def bad(line: int, what: str, hint: str = "") -> InputError:
        return InputError(f"{name}:{line}: front matter: {what}", hint=hint)

    try:
        node = yaml.compose(block, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "not readable"
        raise bad(
            (mark.line if mark else 0) + 2, f"not valid YAML ({problem})", "Quote text that has a colon in it."
        ) from None
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
        except (yaml.YAMLError, ValueError):
            value = value_node.value
        # Text stays as written (a title may be 1999 or "yes"); numbers keep YAML's reading, which knows 3:30.
        is_text = key not in ("seed", "max_duration")
        values[key] = FrontMatterValue(value_node.value if is_text else value, line)
    return values


def normalize_lyrics(text: str) -> str:
    """The model's lyrics normalisation, spec section 2, steps in this order:

    1. split on newlines; a line that begins (after blanks) with tags keeps only those tags;
    2. a new line after every `] `; 3. before every ` [`; 4. for every ` ^ `;
    5. text inside brackets in lower case; 6. `[start]` on a line of its own in front.
    """
    lines = []
    for line in text.split("\n"):
        tags = _LEADING_TAGS.match(line)
        lines.append(tags.group(1).strip() if tags else line)
    joined = "\n".join(lines).replace("] ", "]\n").replace(" [", "\n[").replace(" ^ ", "\n")
    return "[start]\n" + _TAG.sub(lambda tag: f"[{tag.group(1).lower()}]", joined)


@dataclass(frozen=True)
class DroppedWords:
    """Words behind a tag on one line, which the model's contract throws away.

    Attributes:
        line, column: place in the file, counted from 1.
        tags, words: what stays of the line, and what would be lost.
    """

    line: int
    column: int
    tags: str
    words: str


def dropped_words(lyrics: Lyrics) -> list[DroppedWords]:
    """Every place where `normalize_lyrics` loses words."""
    found = []
    for number, line in enumerate(lyrics.text.split("\n"), start=lyrics.first_line):
        tags = _LEADING_TAGS.match(line)
        if tags and line[tags.end() :].strip():
            found.append(DroppedWords(number, tags.end() + 1, tags.group(1).strip(), line[tags.end() :].strip()))
    return found
