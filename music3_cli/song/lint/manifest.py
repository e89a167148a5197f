"""The texts in a manifest (YAML, JSON, JSON lines or CSV) with their places. Only what lint looks at is read."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from music3_cli.song.place import Place, scalar_place, text_place
from music3_cli.song.text import SourceFault, SourceText

ENDINGS = (".yaml", ".yml", ".json", ".jsonl", ".csv")
TEXT_FIELDS = ("lyrics", "lyrics_text", "caption", "caption_file", "preset", "max_duration", "instrumental")

_JSON_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)')
_CSV_CELL = re.compile(r'("(?:[^"]|"")*"|[^,\n]*)(,|\n|\Z)')
_MOST_DEPTH = 100


@dataclass(frozen=True)
class Value:
    """A field's value as text, and where its characters stand."""

    text: str
    place: Place


@dataclass(frozen=True)
class ManifestSong:
    """One song: its name for messages, its line, and those of its fields that lint looks at."""

    label: str
    line: int
    fields: Mapping[str, Value]


@dataclass
class _Table:
    start: int
    items: dict[str, object] = field(default_factory=dict)


@dataclass
class _Scalar:
    start: int
    end: int
    text: str


def read_manifest(source: SourceText, ending: str) -> list[ManifestSong]:
    """The songs of a manifest; fields of `defaults` stand in every song that does not have its own.

    Raises:
        SourceFault: it cannot be read, or has no songs.
    """
    if ending == ".csv":
        songs, defaults = list(_csv_songs(source)), _Table(0)
    elif ending == ".jsonl":
        songs, defaults = list(_json_lines(source)), _Table(0)
    else:
        root = _json(source, source.text, 0) if ending == ".json" else _yaml(source)
        songs, defaults = _songs_of(source, root)
    if not songs:
        raise _fault(source, "no songs; a list of songs was expected", 0)
    where = text_place(source.text)
    found = []
    for number, song in enumerate(songs, start=1):
        fields = {
            name: Value(item.text, scalar_place(source.text, item.start, item.end, item.text, csv=ending == ".csv"))
            for name in TEXT_FIELDS
            if isinstance(item := song.items.get(name, defaults.items.get(name)), _Scalar) and item.text.strip()
        }
        found.append(ManifestSong(f"song {number}", where(song.start)[0], fields))
    return found


def _fault(source: SourceText, what: str, line: int, hint: str = "") -> SourceFault:
    hint = (
        hint or "Songs are written as `songs: [{lyrics: a.txt}, …]`, one object a line (JSONL), or one row each (CSV)."
    )
    return SourceFault("manifest-invalid", source.name, f"manifest: {what}", line=line, hint=hint)


def _songs_of(source: SourceText, root: object) -> tuple[list[_Table], _Table]:
    defaults: object = _Table(0)
    if isinstance(root, _Table):
        defaults = root.items.get("defaults", defaults)
        songs = root.items.get("songs")
    else:
        songs = root
    if not isinstance(songs, list) or not all(isinstance(song, _Table) for song in songs):
        raise _fault(source, "a list of songs was expected, each a table of fields", 0)
    return songs, defaults if isinstance(defaults, _Table) else _Table(0)


def _yaml(source: SourceText) -> object:
    try:
        node = yaml.compose(source.text, Loader=yaml.SafeLoader)
        return _from_yaml(node, 0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        line = mark.line + 1 if mark else 0
        raise _fault(source, f"not valid YAML ({problem})", line, "Quote text that has a colon in it.") from None
    except RecursionError:
        raise _fault(source, "tables inside tables without end", 0) from None


def _from_yaml(node: yaml.Node | None, depth: int) -> object:
    # Songs stand three levels deep; aliases could repeat deeper ones without end.
    if node is None or depth > 3:
        return None
    if isinstance(node, yaml.ScalarNode):
        return _Scalar(node.start_mark.index, node.end_mark.index, node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_from_yaml(item, depth + 1) for item in node.value]
    items = {str(key.value): _from_yaml(value, depth + 1) for key, value in node.value}
    return _Table(node.start_mark.index, items)


def _json_lines(source: SourceText) -> Iterator[_Table]:
    start = 0
    for line in source.text.split("\n"):
        if line.strip():
            song = _json(source, line, start)
            if not isinstance(song, _Table):
                number = source.text.count("\n", 0, start) + 1
                raise _fault(source, "an object with the fields of a song was expected", number)
            yield song
        start += len(line) + 1


def _json(source: SourceText, text: str, start: int) -> object:
    """JSON with the places of its strings, which the json module does not tell. It checks the syntax before."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        line = source.text.count("\n", 0, start + error.pos) + 1
        raise _fault(source, f"not valid JSON ({error.msg})", line, "Check commas and quotes there.") from None
    except RecursionError:
        raise _fault(source, "tables inside tables without end", 0) from None
    tokens = iter(list(_JSON_TOKEN.finditer(text)))
    return _json_value(next(tokens), tokens, start, 0)


def _json_value(token: re.Match[str], tokens: Iterator[re.Match[str]], start: int, depth: int) -> object:
    text, at = token.group(1), token.start(1) + start
    if depth > _MOST_DEPTH:
        return None
    if text == "{":
        table = _Table(at)
        while (token := next(tokens)).group(1) != "}":
            if token.group(1) != ",":
                key = json.loads(token.group(1))
                next(tokens)  # the colon
                table.items[key] = _json_value(next(tokens), tokens, start, depth + 1)
        return table
    if text == "[":
        items = []
        while (token := next(tokens)).group(1) != "]":
            if token.group(1) != ",":
                items.append(_json_value(token, tokens, start, depth + 1))
        return items
    value = json.loads(text)
    return _Scalar(at, token.end(1) + start, value if isinstance(value, str) else text)


def _csv_songs(source: SourceText) -> Iterator[_Table]:
    rows = list(_csv_rows(source.text))
    if not rows:
        return
    names = [cell.text.strip() for cell in rows[0]]
    if not set(names) & set(TEXT_FIELDS):
        expected = "lyrics, lyrics_text, caption, caption_file or preset"
        raise _fault(source, f"the first row must name the columns, among them {expected}", 1)
    for row in rows[1:]:
        if len(row) > len(names) and any(cell.text.strip() for cell in row[len(names) :]):
            line = source.text.count("\n", 0, row[0].start) + 1
            raise _fault(
                source, f"{len(row)} cells for {len(names)} columns", line, "Quote text that has a comma in it."
            )
        yield _Table(row[0].start, dict(zip(names, row, strict=False)))


def _csv_rows(text: str) -> Iterator[list[_Scalar]]:
    """Rows with the places of their cells. The csv module has the last word about what a cell holds."""
    try:
        expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error:
        expected = []
    rows, row, position = [], [], 0
    while position < len(text):
        matched = _CSV_CELL.match(text, position)
        if matched is None:  # a quote in the middle of a cell
            matched = re.compile(r"([^,\n]*)(,|\n|\Z)").match(text, position)
            assert matched is not None
        cell = matched.group(1)
        value = cell[1:-1].replace('""', '"') if cell[:1] == '"' and cell[-1:] == '"' and len(cell) > 1 else cell
        row.append(_Scalar(matched.start(1), matched.end(1), value))
        position = matched.end()
        if matched.group(2) != ",":
            if len(row) > 1 or row[0].text:
                rows.append(row)
            row = []
    if row:
        rows.append(row)
    for found, wanted in zip(rows, expected, strict=False):
        for cell_found, text_wanted in zip(found, wanted, strict=False):
            cell_found.text = text_wanted
    yield from rows
