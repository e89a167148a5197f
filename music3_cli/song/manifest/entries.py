"""From a manifest's tree to the songs that it asks for, and everything that is wrong with it, with lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import product
from math import prod
from typing import Any

from pydantic import BaseModel, ValidationError

from music3_cli.song.manifest.document import Document, Items, Node, Scalar, Table, read_document
from music3_cli.song.manifest.fields import MATRIX_FIELDS, DefaultFields, ManifestFields, SongFields
from music3_cli.song.manifest.template import check_song_template, with_ending
from music3_cli.song.place import Place
from music3_cli.song.text import SourceFault, SourceText

MOST_SONGS = 1_000_000

WORDS = ("lyrics", "lyrics_text", "instrumental")
TOGETHER = (("caption", "caption_file"), ("seeds", "seed"), ("seeds", "takes"), ("as_is", "fix_lyrics"))
"""Fields of which one table may have only one."""
SWITCHES = ("instrumental", "as_is", "fix_lyrics")
REPLACED = {
    **dict.fromkeys(WORDS, WORDS),
    "seeds": ("seed", "takes"),
    "seed": ("seeds",),
    "takes": ("seeds",),
    "caption": ("caption_file",),
    "caption_file": ("caption",),
}
"""A song's field, and the fields of `defaults` that then do not count for it."""


@dataclass(frozen=True)
class Value:
    """A field's value, its text as written, and where it stands."""

    value: Any
    text: str
    where: str
    place: Place = field(repr=False, compare=False)


Fields = Mapping[str, Value]


@dataclass(frozen=True)
class Entry:
    """One song that a manifest asks for.

    Attributes:
        number: of the song in the manifest, counted from 1; all songs of a matrix have one.
        index: of this song among all, counted from 1. An entry with faults counts as one, so that the files of those
            behind it keep their names when it is mended.
        where: `file:line`.
        own, defaults: its fields, the stronger first.
        choice: what a matrix chose for it, a word a field.
    """

    number: int
    where: str
    own: Fields
    defaults: Fields
    choice: tuple[str, ...] = ()
    index: int = 0

    def get(self, name: str) -> Value | None:
        return self.own.get(name) or self.defaults.get(name)

    def is_on(self, name: str) -> bool:
        value = self.get(name)
        return value is not None and str(value.value).lower() == "true"


@dataclass(frozen=True)
class Manifest:
    """A manifest's songs and what is wrong with the others.

    Attributes:
        output: template of file names; empty for the usual ones.
        faults: in the order of the file.
    """

    source: SourceText
    title: str
    output: str
    entries: tuple[Entry, ...]
    faults: tuple[SourceFault, ...]


def read_entries(source: SourceText, ending: str) -> Manifest:
    """Read a manifest; whatever is wrong with it stands in `faults`."""
    document = read_document(source, ending)
    reader = _Reader(document)
    root = document.root
    if isinstance(root, Items):
        root = Table(0, {"songs": root}, {"songs": 0})
    if root is None or not isinstance(root, Table):
        if not document.faults:
            document.faults.append(document.fault("a table with `songs`, or a list of songs was expected"))
        return Manifest(source, "", "", (), tuple(document.faults))
    reader.validate(ManifestFields, root)
    songs, defaults = root.items.get("songs"), root.items.get("defaults")
    entries: list[Entry] = []
    if isinstance(songs, Items):
        entries = reader.entries(songs, defaults if isinstance(defaults, Table) else Table(0))
        if not songs.items and not document.faults:
            document.faults.append(document.fault("no songs; a list of songs was expected"))
    output = _text(root.items.get("output"))
    try:
        check_song_template(output)
    except ValueError:
        output = ""  # its fault stands there already; songs are looked at all the same
    return Manifest(
        source,
        _text(root.items.get("title")),
        with_ending(output) if output else "",
        tuple(entries),
        tuple(sorted(document.faults, key=lambda fault: fault.line)),
    )


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""


def plain(node: Node, depth: int = 0) -> Any:
    """A tree as plain values. Fields without a value were not given."""
    if isinstance(node, Scalar):
        return node.value
    if depth > 5:  # deeper than any field; aliases could repeat such values without end
        return []
    if isinstance(node, Items):
        return [plain(item, depth + 1) for item in node.items]
    return {name: value for name, item in node.items.items() if (value := plain(item, depth + 1)) is not None}


class _Reader:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._bad: set[int] = set()  # starts of tables with faults
        self._told: set[str] = set()
        self._count = 0  # of faults, those that were told before too

    def fault(self, what: str, offset: int, hint: str = "") -> None:
        fault = self._document.fault(what, offset, hint or "docs/manifest.md has every field.")
        self._count += 1
        if fault.message not in self._told:
            self._told.add(fault.message)
            self._document.faults.append(fault)

    def validate(self, model: type[BaseModel], table: Table, name: str = "") -> bool:
        """Check a table's fields; says whether all are right."""
        try:
            model.model_validate(plain(table))
        except ValidationError as error:
            for part in error.errors(include_url=False, include_input=False, include_context=False):
                self._tell(table, part["loc"], part["type"], part["msg"], name)
            return False
        return True

    def _tell(self, table: Table, path: Sequence[int | str], kind: str, message: str, name: str) -> None:
        node, offset, model = _walk(table, path)
        if len(path) > 1 and path[0] == "songs":
            songs = table.items["songs"]
            if isinstance(songs, Items):
                self._bad.add(songs.items[int(path[1])].start)
        last = name or str(path[-1])
        message = message.removeprefix("Value error, ")
        if kind == "extra_forbidden":
            near = get_close_matches(last, model.model_fields, n=1)
            known = f"Did you mean {near[0]}?" if near else f"Known fields: {', '.join(model.model_fields)}."
            offset = 0 if self._document.ending == ".csv" else offset  # a column's name, once and not in every row
            return self.fault(f"unknown field {last!r}", offset, known)
        if kind == "missing":
            return self.fault(f"{last} is missing", offset)
        if kind in ("model_type", "dict_type"):
            return self.fault("a table of fields was expected", offset)
        if kind == "list_type":
            return self.fault(f"{last}: a list was expected", offset)
        shown = f" {_short(node.text)}" if isinstance(node, Scalar) else ""
        self.fault(f"{last}{shown}: {message}", offset)

    def entries(self, songs: Items, defaults: Table) -> list[Entry]:
        shared = self._fields(defaults, DefaultFields)
        self._check_together(defaults)
        found: list[Entry] = []
        ids: dict[str, tuple[int, int]] = {}
        index = 0
        for number, song in enumerate(songs.items, start=1):
            of_entry = list(self._entry(number, song, shared, defaults, ids))
            found += (replace(entry, index=index + place) for place, entry in enumerate(of_entry, start=1))
            index += max(1, len(of_entry))
            if len(found) > MOST_SONGS:
                self.fault(f"more than {MOST_SONGS:,} songs", song.start, "Split the manifest.")
                break
        return found

    def _entry(
        self, number: int, song: Node, shared: Fields, defaults: Table, ids: dict[str, tuple[int, int]]
    ) -> Iterator[Entry]:
        """The songs of one entry; none where anything is wrong with it."""
        if not isinstance(song, Table) or song.start in self._bad:
            return
        before = self._count
        self._check_together(song)
        if (name := song.items.get("id")) is not None:
            first, at = ids.setdefault(_text(name).strip(), (number, name.start))
            if first != number:
                line = self._document.line(at)
                self.fault(f"id {_short(_text(name))} stands twice (first on line {line})", song.start)
        own = self._fields(song, SongFields)
        kept = _without_replaced(shared, own)
        if not (any(name in own or name in kept for name in WORDS) or self._in_matrix(song, defaults)):
            self.fault("a song has no words: lyrics, lyrics_text or instrumental was expected", song.start)
        if self._count == before:
            yield from self._expanded(Entry(number, self._where(song.start), own, kept), song, defaults)

    def _where(self, offset: int) -> str:
        return f"{self._document.source.name}:{self._document.line(offset)}"

    def _fields(self, table: Table, model: type[BaseModel]) -> dict[str, Value]:
        return {
            name: self._value(node)
            for name, node in table.items.items()
            if name in model.model_fields and name != "matrix" and plain(node) is not None
        }

    def _value(self, node: Node) -> Value:
        if isinstance(node, Scalar):
            return Value(node.value, node.text, self._where(node.start), self._document.place(node))
        content = plain(node)
        if isinstance(node, Table):  # names and values as they are written
            content = {name: item.text for name, item in node.items.items() if isinstance(item, Scalar)}
        return Value(content, "", self._where(node.start), lambda _: (self._document.line(node.start), 1))

    def _check_together(self, table: Table) -> None:
        given = {name for name, node in table.items.items() if plain(node) is not None and not _is_off(name, node)}
        words = [name for name in WORDS if name in given]
        if len(words) > 1:
            self.fault(f"{' and '.join(words)}: one of them was expected", table.items[words[1]].start)
        for one, other in TOGETHER:
            if one in given and other in given:
                self.fault(f"{one} and {other}: one of them was expected", table.keys[one])

    def _in_matrix(self, song: Table, defaults: Table) -> bool:
        matrix = song.items.get("matrix", defaults.items.get("matrix"))
        return isinstance(matrix, Table) and any(name in matrix.items for name in WORDS)

    def _expanded(self, entry: Entry, song: Table, defaults: Table) -> Iterator[Entry]:
        """One entry, or one for each choice of its matrix."""
        matrix = song.items.get("matrix", defaults.items.get("matrix"))
        if matrix is None or plain(matrix) is None:
            yield entry
            return
        if not isinstance(matrix, Table) or not matrix.items:
            self.fault("matrix: a table of lists was expected, such as {seed: [1, 2]}", matrix.start)
            return
        axes = self._axes(matrix)
        if axes is None:
            return
        if prod(len(values) for values in axes.values()) > MOST_SONGS:
            self.fault(f"matrix: more than {MOST_SONGS:,} songs", matrix.start)
            return
        for chosen in product(*(enumerate(values, start=1) for values in axes.values())):
            own, words = entry.own, []
            for name, (number, value) in zip(axes, chosen, strict=True):
                own = {**_without_replaced(own, {name: value}), name: value}
                words.append(_choice_word(name, number, value))
            yield replace(entry, own=own, defaults=_without_replaced(entry.defaults, own), choice=tuple(words))

    def _axes(self, matrix: Table) -> dict[str, list[Value]] | None:
        """Each axis's values; None where any of them is wrong."""
        before = self._count
        self._check_together(matrix)
        axes: dict[str, list[Value]] = {}
        for name, values in matrix.items.items():
            at = matrix.keys[name]
            if name not in MATRIX_FIELDS:
                near = get_close_matches(name, MATRIX_FIELDS, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"It may have: {', '.join(MATRIX_FIELDS)}."
                self.fault(f"matrix: unknown field {name!r}", at, hint)
            elif not isinstance(values, Items) or not values.items:
                self.fault(f"matrix: {name} must be a list of one value or more", at)
            else:
                for item in values.items:
                    self.validate(SongFields, Table(item.start, {name: item}, {name: item.start}), name)
                axes[name] = [self._value(item) for item in values.items]
        return axes if self._count == before else None


def _walk(table: Table, path: Sequence[int | str]) -> tuple[Node, int, type[BaseModel]]:
    """The node at a path of pydantic's, the offset that a message should name, and the table's model."""
    node: Node = table
    offset = table.start
    model: type[BaseModel] = ManifestFields if "songs" in table.items or path[:1] == ("songs",) else SongFields
    for part in path:
        if isinstance(node, Table) and part in node.items:
            model = DefaultFields if part == "defaults" else model
            offset, node = node.keys[str(part)], node.items[str(part)]
        elif isinstance(node, Items) and isinstance(part, int):
            node, model = node.items[part], SongFields
            offset = node.start
    if path[-1:] == ("defaults",):
        model = ManifestFields
    return node, offset, model


def _is_off(name: str, value: Node | Value) -> bool:
    """Whether it is a switch among words that says no: words may stand beside it."""
    return name in SWITCHES and not isinstance(value, Items | Table) and str(value.value).lower() == "false"


def _without_replaced(weaker: Fields, stronger: Fields) -> Fields:
    """The weaker fields that still count beside the stronger ones."""
    gone = {other for name, value in stronger.items() if not _is_off(name, value) for other in REPLACED.get(name, ())}
    return {name: value for name, value in weaker.items() if name not in gone}


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _choice_word(name: str, number: int, value: Value) -> str:
    """What tells a choice apart in ids: short names as they are, numbers behind their field, else the place in the
    list.
    """
    text = value.text.strip()
    if name in ("lyrics", "caption_file"):
        text = text.replace("\\", "/").rpartition("/")[2].partition(".")[0]
    if isinstance(value.value, int | float) or text.replace(".", "").isdigit():
        return f"{name}{text}"
    return text if text and len(text) <= 30 and not any(c.isspace() for c in text) else f"{name}{number}"
