"""From lyrics and settings to songs: words read, settings resolved, lint run. Nothing is known of output files yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from music3_cli.errors import InputError, Music3Error, UsageError, raise_all
from music3_cli.jobs.naming import safe_name
from music3_cli.jobs.words import (
    INSTRUMENTAL,
    Handling,
    check_placeholders_used,
    check_words,
    complete_for_instrumental,
    filled_caption,
    instrumental_lyrics,
    placed_caption,
    read_lyrics,
)
from music3_cli.song.instrumental import DEFAULT_PRESET as INSTRUMENTAL_PRESET
from music3_cli.song.lint.check import Caption
from music3_cli.song.lyrics import Lyrics
from music3_cli.song.presets import DEFAULT_PRESET, Preset, load_preset
from music3_cli.song.settings import Layer, Sourced, resolve
from music3_cli.song.text import read_text

if TYPE_CHECKING:
    from music3_cli.song.codes import SongCodes


@dataclass(frozen=True)
class Song:
    """One lyrics file with its settings, before takes.

    Attributes:
        settings: every setting with its source.
        notes, warnings: what the user should know.
        codes, exact: known codes, and whether they go through the talker step by step.
        handling: what was done with its words.
        source: what a command line calls its words; without it, the name of its lyrics file.
        seeds: a take for each, instead of seed and takes.
        tags: labels of the file that are no settings.
        keep_codes: the song is finished only with its codes file.
        index: its place in a manifest, for names.
    """

    id: str
    lyrics: Lyrics
    settings: Mapping[str, Sourced[Any]]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    codes: SongCodes | None = None
    exact: bool = False
    handling: Handling = Handling()
    source: str = ""
    seeds: tuple[int, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    keep_codes: bool = False
    index: int = 0

    def value(self, name: str) -> Any:
        return self.settings[name].value

    @property
    def takes(self) -> int:
        return len(self.seeds) or int(self.value("takes"))


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """The strongest layer: raw values of flags by setting name, None where not given."""
    return Layer(flags, {name: f"--{name.replace('_', '-')}" for name in flags}, is_flags=True)


def read_songs(
    files: Sequence[str],
    flags: Mapping[str, object],
    caption_file: str | None,
    handling: Handling = Handling(),  # noqa: B008  frozen
) -> list[Song]:
    """Read lyrics files, resolve their settings and run the lint rules.

    Args:
        files: paths, `-` for standard input.
        flags: raw values of flags by setting name; None where not given.
        caption_file: a caption to read, stronger than any other but `--caption`.
        handling: what is done with the words.

    Raises:
        InputError, UsageError, ManyErrors: everything that is wrong with any of the files.
    """
    if files.count("-") > 1:
        raise UsageError("standard input (-) can be read only once")
    if caption_file is not None and flags.get("caption") is not None:
        raise UsageError("--caption and --caption-file: one of them was expected")
    layers = [flag_layer(flags)]
    if caption_file is not None:
        layers.insert(
            0, Layer({"caption": read_text(caption_file, as_is=handling.as_is).text}, {"caption": caption_file})
        )
    songs: list[Song] = []
    errors: list[Music3Error] = []
    for file in [INSTRUMENTAL] if handling.instrumental else files:
        try:
            songs.append(_read_song(file, layers, handling))
        except Music3Error as error:
            if error.message not in (known.message for known in errors):  # a wrong flag is one error, not one a file
                errors.append(error)
    raise_all(errors)
    return with_unique_ids(songs)


def _read_song(file: str, stronger: Sequence[Layer], handling: Handling) -> Song:
    lyrics, notes = (None, list[str]()) if handling.instrumental else read_lyrics(file, handling)
    stem = "instrumental" if handling.instrumental else "stdin" if file == "-" else Path(file).stem
    return assemble_song(safe_name(stem), lyrics, notes, stronger, handling)


def assemble_song(
    id: str,
    lyrics: Lyrics | None,
    notes: list[str],
    stronger: Sequence[Layer],
    handling: Handling,
    captions: Mapping[str, Caption] | None = None,
    load: Callable[[str], Preset] = load_preset,
) -> Song:
    """A song from its words and the settings around them.

    Args:
        lyrics: None for an instrumental.
        stronger: layers before the lyrics' front matter.
        captions: by source, those whose places are known.
        load: finds presets.

    Raises:
        InputError, UsageError, ManyErrors: everything that is wrong with it.
    """
    lyrics = instrumental_lyrics(None) if lyrics is None else lyrics
    name = lyrics.source.name
    front = Layer(
        {key: item.value for key, item in lyrics.front_matter.items()},
        {key: f"{name}:{item.line}" for key, item in lyrics.front_matter.items()},
    )
    layers = [*stronger, front]
    preset = _preset_of(layers, INSTRUMENTAL_PRESET if handling.instrumental else DEFAULT_PRESET)
    loaded = None
    if preset.value:
        try:
            loaded = load(preset.value)
        except InputError as error:
            where = "" if preset.source == "built-in" else f"{preset.source}: "
            raise InputError(f"{where}{error.message}", hint=error.hint) from None
        values = {"caption": filled_caption(loaded, handling), **loaded.settings}
        layers = [*_without_weaker_captions(layers), Layer(values, dict.fromkeys(values, f"preset {preset.value}"))]
        if preset.source == "built-in":
            notes.append(f"{name}: no caption was given; the preset {preset.value!r} is used")
    settings = resolve(layers)
    settings["preset"] = preset
    check_placeholders_used(settings["caption"], name, handling)
    ceiling = settings["max_duration"].value
    if handling.instrumental:
        lyrics = instrumental_lyrics(ceiling)
        notes += complete_for_instrumental(settings)
    caption = settings["caption"]
    warnings = []
    if not handling.as_is:
        placed = (captions or {}).get(caption.source) or placed_caption(caption, lyrics, loaded, handling)
        warnings = check_words(lyrics, placed, caption.value, ceiling, handling.stops)
    return Song(id, lyrics, settings, tuple(notes), tuple(warnings), handling=handling)


def _preset_of(layers: Sequence[Layer], default: str) -> Sourced[str]:
    """The named preset; the one by default where nobody names a preset or has a caption."""
    for layer in layers:
        if layer.values.get("preset") is not None:
            return Sourced(str(layer.values["preset"]), layer.where["preset"])
    has_caption = any(layer.values.get("caption") is not None for layer in layers)
    return Sourced("" if has_caption else default, "built-in")


def _without_weaker_captions(layers: Sequence[Layer]) -> list[Layer]:
    """A preset's caption replaces those of sources weaker than the one that names the preset."""
    kept: list[Layer] = []
    named = False
    for layer in layers:
        kept.append(layer.without("caption") if named else layer)
        named = named or layer.values.get("preset") is not None
    return kept


class _Named(Protocol):
    @property
    def id(self) -> str: ...


N = TypeVar("N", bound=_Named)


def with_unique_ids(songs: Sequence[N]) -> list[N]:
    """Equal ids are told apart by `-2`, `-3`, …, leaving out those that another song has."""
    taken = {song.id for song in songs}
    seen: Counter[str] = Counter()
    unique = []
    for song in songs:
        seen[song.id] += 1
        if seen[song.id] > 1:
            while f"{song.id}-{seen[song.id]}" in taken:
                seen[song.id] += 1
            taken.add(f"{song.id}-{seen[song.id]}")
            song = replace(song, id=f"{song.id}-{seen[song.id]}")  # type: ignore[type-var]
        unique.append(song)
    return unique
