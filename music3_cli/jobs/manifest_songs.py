"""A manifest's entries as songs: files read beside the manifest, layers in their order, ids given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from music3_cli.errors import InputError, ManyErrors, Music3Error, UsageError
from music3_cli.jobs.naming import safe_name
from music3_cli.jobs.songs import Song, assemble_song, flag_layer, with_unique_ids
from music3_cli.jobs.words import Handling, read_lyrics
from music3_cli.song.lint.check import Caption
from music3_cli.song.lyrics import Lyrics
from music3_cli.song.manifest.document import ENDINGS, MAX_MANIFEST_BYTES
from music3_cli.song.presets import Preset, load_preset
from music3_cli.song.settings import Layer
from music3_cli.song.text import SourceText, decode_text, read_bytes, read_text

if TYPE_CHECKING:
    from music3_cli.song.manifest.entries import Entry, Fields

TEXTS = ("title", "artist", "album", "caption", "preset")


@dataclass(frozen=True)
class Unusable:
    """An entry of a manifest that cannot be rendered."""

    id: str
    title: str
    artist: str
    errors: tuple[Music3Error, ...]


@dataclass(frozen=True)
class ManifestSongs:
    """What a manifest asks for, in its order.

    Attributes:
        output: template of names inside the output folder; empty for the usual ones.
        faults: what is wrong with the manifest itself, not with one entry.
    """

    path: Path
    title: str
    output: str
    songs: tuple[Song | Unusable, ...]
    faults: tuple[Music3Error, ...]

    @property
    def errors(self) -> list[Music3Error]:
        """All that is wrong with it and its songs."""
        return [*self.faults, *(error for song in self.songs if isinstance(song, Unusable) for error in song.errors)]


def read_manifest_songs(path: Path, flags: Mapping[str, object], strict: bool) -> ManifestSongs:
    """Read a manifest and every file that it names; everything that is wrong comes back with it.

    Args:
        flags: raw values of settings by name, stronger than the manifest's; None where not given.
        strict: lint warnings make a song unusable too.

    Raises:
        UsageError: the file's ending is none of a manifest's.
        SourceFault: the file cannot be read.
    """
    from music3_cli.song.manifest.entries import read_entries

    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{path}: a manifest ends in one of {', '.join(ENDINGS)}")
    source = decode_text(read_bytes(str(path), MAX_MANIFEST_BYTES), str(path), most=MAX_MANIFEST_BYTES)
    manifest = read_entries(source, ending)
    reader = _Reader(path, flags, strict)
    songs = [reader.read(entry) for entry in manifest.entries]
    return ManifestSongs(path, manifest.title, manifest.output, tuple(with_unique_ids(songs)), manifest.faults)


class _Reader:
    def __init__(self, manifest: Path, flags: Mapping[str, object], strict: bool) -> None:
        self._manifest, self._flags, self._strict = manifest, flag_layer(flags), strict
        # Ten thousand songs share a few presets and captions.
        self._preset: Callable[[str], Preset] = cache(load_preset)
        self._text: Callable[[str], SourceText] = cache(read_text)

    def read(self, entry: Entry) -> Song | Unusable:
        try:
            return self._read(entry)
        except Music3Error as error:
            errors = error.errors if isinstance(error, ManyErrors) else (error,)
            artist = entry.get("artist")
            return Unusable(_id(entry), _title(entry), artist.text if artist else "", tuple(errors))

    def _read(self, entry: Entry) -> Song:
        handling = self._handling(entry)
        lyrics, notes, source = self._words(entry, handling)
        captions: dict[str, Caption] = {}
        layers = [self._flags, *(self._layer(fields, captions) for fields in (entry.own, entry.defaults))]
        song = assemble_song(_id(entry), lyrics, notes, layers, handling, captions, self._preset)
        seeds = entry.get("seeds")
        if self._flags.values.get("seed") is not None or self._flags.values.get("takes") is not None:
            seeds = None
        tags = entry.get("tags")
        return replace(
            song,
            source=source,
            seeds=_seeds(seeds.value) if seeds else (),
            tags=dict(tags.value) if tags else {},
            keep_codes=entry.is_on("keep_codes"),
            index=entry.index,
        )

    def _handling(self, entry: Entry) -> Handling:
        values = entry.get("set")
        return Handling(
            as_is=entry.is_on("as_is"),
            fix=entry.is_on("fix_lyrics"),
            stops=("error", "warning") if self._strict else ("error",),
            instrumental=entry.is_on("instrumental"),
            placeholders=dict(values.value) if values else {},
        )

    def _words(self, entry: Entry, handling: Handling) -> tuple[Lyrics | None, list[str], str]:
        """Lyrics, notes, and what a command line calls them."""
        if handling.instrumental:
            return None, [], ""
        if (inline := entry.get("lyrics_text")) is not None:
            # Words only: front matter there would be sung, and lint says so. Their places are the manifest's.
            text = SourceText(str(self._manifest), inline.text)
            return Lyrics(text, inline.text, place=inline.place), [], "<stdin>"
        named = entry.get("lyrics")
        if named is None:
            raise InputError(f"{entry.where}: no words: lyrics, lyrics_text or instrumental: true was expected")
        path = self._beside(named.text)
        try:
            lyrics, notes = read_lyrics(path, handling)
        except InputError as error:
            raise InputError(f"{named.where}: {error.message}", hint=error.hint) from None
        return lyrics, notes, PurePath(path).name

    def _layer(self, fields: Fields, captions: dict[str, Caption]) -> Layer:
        values: dict[str, object] = {}
        where: dict[str, str] = {}
        for name, value in fields.items():
            values[name], where[name] = value.text if name in TEXTS else value.value, value.where
        if (caption := fields.get("caption")) is not None:
            captions[caption.where] = Caption(caption.text, str(self._manifest), caption.place)
        if (file := fields.get("caption_file")) is not None:
            path = self._beside(file.text)
            try:
                values["caption"], where["caption"] = self._text(path).text, path
            except InputError as error:
                raise InputError(f"{file.where}: {error.message}", hint=error.hint) from None
        return Layer(values, where)

    def _beside(self, name: str) -> str:
        path = Path(name.strip())
        with suppress(RuntimeError):  # ~somebody, whom the system does not know
            path = path.expanduser()
        return str(self._manifest.parent / path)


def _seeds(value: object) -> tuple[int, ...]:
    from music3_cli.song.manifest.fields import seed_list

    return tuple(seed_list(value))


def _id(entry: Entry) -> str:
    """The song's own id, else its lyrics file's name, its title or its number; and what a matrix chose for it."""
    id, lyrics = entry.own.get("id"), entry.get("lyrics")
    base = id.text if id else PurePath(lyrics.text.strip()).stem if lyrics else _title(entry) or f"song-{entry.number}"
    return safe_name("-".join((base, *entry.choice)))


def _title(entry: Entry) -> str:
    title = entry.get("title")
    return title.text if title else ""
