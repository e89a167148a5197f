"""Where a character of a text stands in its file: for plain files, and for texts inside YAML, JSON and CSV."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cache, lru_cache

Place = Callable[[int], tuple[int, int]]
"""Offset in a text -> line and column of the file, both counted from 1, columns in characters."""

_BLANK = " \t\n\r"
_PLAIN_UNIT = re.compile(r"[^ \t\n\r]")
_SINGLE_QUOTED_UNIT = re.compile(r"''|[^ \t\n\r]")
_CSV_UNIT = re.compile(r'""|[^ \t\n\r]')
# Two escapes that make one character come first; escapes for blanks, which are no unit, are filtered afterwards.
_ESCAPED_UNIT = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.|\n)|[^ \t\n\r]"
)
_BLANK_ESCAPES = ("\\n", "\\t", "\\r", "\\ ", "\\\n")


def text_place(text: str, first_line: int = 1) -> Place:
    """Places in a text that stands in its file as it is, from the beginning of line `first_line` on."""
    starts = _line_starts(text)

    def place(offset: int) -> tuple[int, int]:
        index = bisect_right(starts, offset) - 1
        return first_line + index, offset - starts[index] + 1

    return place


@lru_cache(maxsize=8)
def _line_starts(text: str) -> list[int]:
    """Offsets of the beginnings of all lines. A manifest is asked about as often as it has texts."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def scalar_place(source: str, start: int, end: int, value: str, *, csv: bool = False) -> Place:
    """Places in a text that a YAML, JSON or CSV file holds as one scalar.

    Quoting, folding and indentation move blanks about and escape characters, but keep the order of all that is
    visible: the n-th visible character of `value` is the n-th visible unit of `source[start:end]`. Where the two do
    not have equally many (rare escapes), every offset is placed at the scalar's beginning.
    """

    @cache
    def made() -> Place:
        return _scalar_place(source, start, end, value, csv)

    return lambda position: made()(position)  # most texts are never asked about


def _scalar_place(source: str, start: int, end: int, value: str, csv: bool) -> Place:
    raw = source[start:end]
    offset, unit = start, _PLAIN_UNIT
    if raw[:1] in ("|", ">") and not csv:
        head = raw.find("\n") + 1 or len(raw)
        raw, offset = raw[head:], start + head
    elif raw[:1] in ('"', "'") and len(raw) > 1 and not (csv and raw[0] == "'"):
        unit = _CSV_UNIT if csv else _ESCAPED_UNIT if raw[0] == '"' else _SINGLE_QUOTED_UNIT
        raw, offset = raw[1:-1], start + 1
    in_file = text_place(source)
    units = [match.start() + offset for match in unit.finditer(raw) if match.group() not in _BLANK_ESCAPES]
    visible = [index for index, character in enumerate(value) if character not in _BLANK]
    if len(units) != len(visible):
        return lambda _: in_file(start)

    def place(position: int) -> tuple[int, int]:
        index = bisect_left(visible, position)
        if index < len(visible) and visible[index] == position:
            return in_file(units[index])
        return in_file(units[index - 1] + 1) if index else in_file(offset)

    return place
