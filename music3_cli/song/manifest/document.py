"""YAML, JSON, JSON lines and CSV as one kind of tree, in which every value knows where it stands in the file.

Nothing here knows what a manifest's fields mean; that is `fields.py` and `entries.py`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from music3_cli.song.place import Place, scalar_place, text_place
from music3_cli.song.text import SourceFault, SourceText

ENDINGS = (".yaml", ".yml", ".json", ".jsonl", ".csv")
MAX_MANIFEST_BYTES = 256 * 2**20

MOST_VALUES = 5_000_000
"""Values that a document may unfold to; aliases of aliases make billions out of ten lines."""

SONGS_HINT = "Songs are written as `songs: [{lyrics: a.txt}, …]`, one object a line (JSONL), or one row each (CSV)."

_JSON_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)')
_CSV_CELL = re.compile(r'("(?:[^"]|"")*"|[^,\n]*)(,|\n|\Z)')
_CSV_ODD_CELL = re.compile(r"([^,\n]*)(,|\n|\Z)")  # a quote in the middle
_MOST_DEPTH = 100


@dataclass
class Scalar:
    """One plain value: as it is written, and as the format reads it (a number, true, null, text)."""

    start: int
    end: int
    text: str
    value: object


@dataclass
class Items:
    start: int
    items: list[Node]


@dataclass
class Table:
    start: int
    items: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)


Node = Scalar | Items | Table


@dataclass
class Document:
    """A file's tree, and what is wrong with parts of it that the rest does not depend on.

    Attributes:
        root: None where nothing can be read.
    """

    source: SourceText
    ending: str
    root: Node | None = None
    faults: list[SourceFault] = field(default_factory=list)

    def line(self, offset: int) -> int:
        return text_place(self.source.text)(offset)[0]

    def place(self, scalar: Scalar) -> Place:
        """Where the characters of a value's text stand."""
        return scalar_place(self.source.text, scalar.start, scalar.end, scalar.text, csv=self.ending == ".csv")

    def fault(self, what: str, offset: int | None = None, hint: str = SONGS_HINT) -> SourceFault:
        """An error at an offset, or about the whole file."""
        line = 0 if offset is None else self.line(offset)
        return SourceFault("manifest-invalid", self.source.name, f"manifest: {what}", line=line, hint=hint)


def read_document(source: SourceText, ending: str) -> Document:
    """Read a file's text; what cannot be read stands in `faults`."""
    document = Document(source, ending)
    try:
        if ending == ".csv":
            document.root = Items(0, list(_csv_rows_as_tables(document)))
        elif ending == ".jsonl":
            document.root = Items(0, list(_json_lines(document)))
        elif ending == ".json":
            document.root = _json(document, source.text, 0)
        else:
            document.root = _yaml(document)
    except SourceFault as fault:
        document.faults.append(fault)
    for scalar in _scalars(document.root, set()):
        if any("\ud800" <= character <= "\udfff" for character in scalar.text):
            what = "text has half of a character (a lone \\ud800 to \\udfff)"
            document.faults.append(document.fault(what, scalar.start, "Write the character itself."))
            scalar.text = scalar.value = "?"
    return document


def _scalars(node: Node | None, seen: set[int]) -> Iterator[Scalar]:
    """All plain values, each once, however many aliases point to it."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Scalar):
        yield node
        return
    for inner in node.items if isinstance(node, Items) else node.items.values():
        yield from _scalars(inner, seen)


def _twice(document: Document, key: str, first: int, second: int) -> SourceFault:
    return document.fault(
        f"{key} stands twice (first on line {document.line(first)})", second, "Leave out one of the two."
    )


# YAML


def _yaml(document: Document) -> Node | None:
    try:
        root = yaml.compose(document.source.text, Loader=yaml.SafeLoader)
        return None if root is None else _YamlTree(document).convert(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        what = f"not valid YAML ({problem})"
        hint = "Indent with spaces, not tabs." if "'\\t'" in problem else "Quote text that has a colon in it."
        raise document.fault(what, mark.index if mark else None, hint) from None
    except RecursionError:
        raise document.fault("tables inside tables without end") from None


class _YamlTree:
    """Converts each node once, however many aliases point to it, and counts what they unfold to."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._scalars = yaml.SafeLoader("")
        self._done: dict[int, tuple[Node, int]] = {}
        self._open: set[int] = set()

    def convert(self, node: yaml.Node) -> Node:
        return self._convert(node)[0]

    def _convert(self, node: yaml.Node) -> tuple[Node, int]:
        start = node.start_mark.index
        if id(node) in self._open:
            raise self._document.fault("a value that contains itself through an alias", start, "Write it out.")
        if (known := self._done.get(id(node))) is not None:
            return known
        self._open.add(id(node))
        converted: Node
        if isinstance(node, yaml.ScalarNode):
            converted, count = Scalar(start, node.end_mark.index, str(node.value), self._value(node)), 1
        elif isinstance(node, yaml.SequenceNode):
            parts = [self._convert(item) for item in node.value]
            converted, count = Items(start, [part for part, _ in parts]), 1 + sum(size for _, size in parts)
        else:
            converted, count = self._table(node)
        self._open.discard(id(node))
        if count > MOST_VALUES:
            what = f"aliases unfold to more than {MOST_VALUES:,} values"
            raise self._document.fault(what, start, "Use fewer aliases of aliases.")
        self._done[id(node)] = converted, count
        return converted, count

    def _table(self, node: yaml.Node) -> tuple[Table, int]:
        table, count, merged = Table(node.start_mark.index), 1, list[Node]()
        for key_node, value_node in node.value:
            value, size = self._convert(value_node)
            count += size
            key, at = str(key_node.value), key_node.start_mark.index
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged += value.items if isinstance(value, Items) else [value]
            elif key in table.keys:
                self._document.faults.append(_twice(self._document, key, table.keys[key], at))
            else:
                table.items[key], table.keys[key] = value, at
        for other in merged:
            if isinstance(other, Table):
                table.items = {**other.items, **table.items}
                table.keys = {**other.keys, **table.keys}
        return table, count

    def _value(self, node: yaml.ScalarNode) -> object:
        """Text, a number, true, false or null; all else (dates, tags) stays text."""
        try:
            value = self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError):  # PyYAML's own, for a tag that does not fit
            return node.value
        return value if value is None or isinstance(value, bool | int | float | str) else node.value


# JSON


def _json_lines(document: Document) -> Iterator[Node]:
    start = 0
    for line in document.source.text.split("\n"):
        if line.strip():
            try:
                yield _json(document, line, start)
            except SourceFault as fault:
                document.faults.append(fault)
        start += len(line) + 1


def _json(document: Document, text: str, start: int) -> Node:
    """JSON with the places of its values, which the json module does not tell. It checks the syntax before."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        what, hint = f"not valid JSON ({error.msg})", "Check commas and quotes there."
        raise document.fault(what, start + error.pos, hint) from None
    except RecursionError:
        raise document.fault("tables inside tables without end") from None
    except ValueError:  # Python's limit on the digits of a number
        raise document.fault("a number with thousands of digits", start) from None
    tokens = _JSON_TOKEN.finditer(text)
    return _json_value(document, next(tokens), tokens, start, 0)


def _json_value(
    document: Document, token: re.Match[str], tokens: Iterator[re.Match[str]], start: int, depth: int
) -> Node:
    text, at = token.group(1), token.start(1) + start
    if depth > _MOST_DEPTH:
        raise document.fault("tables inside tables without end", at)
    if text == "{":
        table = Table(at)
        while (token := next(tokens)).group(1) != "}":
            if token.group(1) == ",":
                continue
            key, key_at = json.loads(token.group(1)), token.start(1) + start
            next(tokens)  # the colon
            value = _json_value(document, next(tokens), tokens, start, depth + 1)
            if key in table.keys:
                document.faults.append(_twice(document, key, table.keys[key], key_at))
            else:
                table.items[key], table.keys[key] = value, key_at
        return table
    if text == "[":
        items = Items(at, [])
        while (token := next(tokens)).group(1) != "]":
            if token.group(1) != ",":
                items.items.append(_json_value(document, token, tokens, start, depth + 1))
        return items
    value = json.loads(text)
    return Scalar(at, token.end(1) + start, value if isinstance(value, str) else text, value)


# CSV

_CSV_QUOTES = 'A quoted cell begins with " right behind the comma and ends with " right before one; "" inside is one ".'


def _csv_rows_as_tables(document: Document) -> Iterator[Node]:
    """A table a row. An empty cell is a field that was not given; `tags.genre` is `genre` in the table `tags`."""
    rows = _csv_rows(document)
    if not rows:
        return
    names = [cell.text.strip() for cell in rows[0]]
    if len(names) == 1 and (other := next((mark for mark in ";\t|" if mark in names[0]), None)):
        what = f"cells are separated by {other!r}; commas were expected"
        raise document.fault(what, rows[0][0].start, "Save the table as CSV with commas and UTF-8.")
    for index, (name, cell) in enumerate(zip(names, rows[0], strict=True)):
        if name and name in names[:index]:
            document.faults.append(document.fault(f"two columns are named {name}", cell.start, "Rename one of them."))
    for row in rows[1:]:
        if not any(cell.text.strip() for cell in row):
            continue  # spreadsheets write them behind the last song
        if lost := next((cell for name, cell in zip(names, row, strict=False) if not name and cell.text.strip()), None):
            document.faults.append(document.fault("a cell in a column without a name", lost.start, "Name the column."))
            continue
        if len(row) > len(names) and any(cell.text.strip() for cell in row[len(names) :]):
            what = f"{len(row)} cells for {len(names)} columns"
            document.faults.append(document.fault(what, row[0].start, "Quote text that has a comma in it."))
            continue
        table = Table(row[0].start)
        for name, cell in zip(names, row, strict=False):
            if not cell.text.strip() or not name or name in table.items:
                continue
            head, dot, rest = name.partition(".")
            if dot and rest:
                inner = table.items.setdefault(head, Table(cell.start))
                if isinstance(inner, Table):
                    inner.items[rest], inner.keys[rest] = cell, cell.start
                table.keys.setdefault(head, cell.start)
            else:
                table.items[name], table.keys[name] = cell, cell.start
        yield table


def _csv_rows(document: Document) -> list[list[Scalar]]:
    """Rows with the places of their cells. The csv module has the last word about what a cell holds.

    Raises:
        SourceFault: quotes that stand or end where they may not.
    """
    text = document.source.text
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        expected = [row for row in reader if len(row) > 1 or "".join(row)]
    except csv.Error as error:
        at = sum(len(line) for line in text.splitlines(keepends=True)[: reader.line_num - 1])
        raise document.fault(f"not valid CSV ({error})", min(at, len(text)), _CSV_QUOTES) from None
    rows, row, position = [], list[Scalar](), 0
    while position < len(text):
        matched = _CSV_CELL.match(text, position) or _CSV_ODD_CELL.match(text, position)
        assert matched is not None
        cell = matched.group(1)
        value = cell[1:-1].replace('""', '"') if cell[:1] == '"' and cell[-1:] == '"' and len(cell) > 1 else cell
        row.append(Scalar(matched.start(1), matched.end(1), value, value))
        position = matched.end()
        if matched.group(2) != ",":
            if len(row) > 1 or row[0].text:
                rows.append(row)
            row = []
    if row:
        rows.append(row)
    if [len(row) for row in rows] != [len(row) for row in expected]:
        raise document.fault("quotes that do not enclose whole cells", None, _CSV_QUOTES)
    for found, wanted in zip(rows, expected, strict=True):
        for cell_found, text_wanted in zip(found, wanted, strict=True):
            cell_found.text = cell_found.value = text_wanted
    return rows
