"""The texts in a manifest with their places: what of its songs lint looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from music3_cli.song.manifest.document import Document, Items, Scalar, Table, read_document
from music3_cli.song.place import Place
from music3_cli.song.text import SourceText

TEXT_FIELDS = ("lyrics", "lyrics_text", "caption", "caption_file", "preset", "max_duration", "instrumental")


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


def read_manifest(source: SourceText, ending: str) -> list[ManifestSong]:
    """The songs of a manifest; fields of `defaults` stand in every song that does not have its own.

    Raises:
        SourceFault: it cannot be read, or has no songs.
    """
    document = read_document(source, ending)
    if document.faults:
        raise document.faults[0]
    songs, defaults = _songs_of(document)
    if not songs:
        raise document.fault("no songs; a list of songs was expected")
    if ending == ".csv" and not any(song.items.keys() & set(TEXT_FIELDS) for song in songs):
        expected = "lyrics, lyrics_text, caption, caption_file or preset"
        raise document.fault(f"the first row must name the columns, among them {expected}", 0)
    found = []
    for number, song in enumerate(songs, start=1):
        fields = {
            name: Value(item.text, document.place(item))
            for name in TEXT_FIELDS
            if isinstance(item := song.items.get(name, defaults.items.get(name)), Scalar) and item.text.strip()
        }
        found.append(ManifestSong(f"song {number}", document.line(song.start), fields))
    return found


def _songs_of(document: Document) -> tuple[list[Table], Table]:
    root, defaults = document.root, None
    songs = root
    if isinstance(root, Table):
        songs, defaults = root.items.get("songs"), root.items.get("defaults")
    tables = [song for song in songs.items if isinstance(song, Table)] if isinstance(songs, Items) else []
    if not isinstance(songs, Items) or len(tables) < len(songs.items):
        if document.ending == ".jsonl" and isinstance(songs, Items):
            other = next(song for song in songs.items if not isinstance(song, Table))
            raise document.fault("an object with the fields of a song was expected", other.start)
        raise document.fault("a list of songs was expected, each a table of fields")
    return tables, defaults if isinstance(defaults, Table) else Table(0)
