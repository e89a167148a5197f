"""Everything that is decided before a weight is loaded: songs, prompts, ceilings, files and what happens to them.

All that is wrong is found here and reported at once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.errors import InputError, Music3Error, OutputError, UsageError, raise_all
from music3_cli.jobs.naming import fill_template, fixed_ending, numbered, output_template, safe_name
from music3_cli.jobs.sidecar import differences, has_codes, is_done
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
    size_warnings,
)
from music3_cli.song.delivery import FORMATS, Delivery, make_delivery
from music3_cli.song.instrumental import DEFAULT_PRESET as INSTRUMENTAL_PRESET
from music3_cli.song.limits import MAX_FRAMES, MAX_SEED, clock, frames_to_seconds
from music3_cli.song.lyrics import Lyrics
from music3_cli.song.presets import DEFAULT_PRESET, load_preset
from music3_cli.song.prompt import Prompt, PromptTokenizer, check_prompt_length, frames_left
from music3_cli.song.request import SongRequest
from music3_cli.song.settings import Layer, Sourced, resolve
from music3_cli.song.text import read_text

if TYPE_CHECKING:
    from music3_cli.song.codes import SongCodes

ON_EXISTS = ("keep", "overwrite", "number", "error")


@dataclass(frozen=True)
class Song:
    """One lyrics file with its settings, before takes.

    Attributes:
        settings: every setting with its source.
        notes, warnings: what the user should know.
        codes, exact: known codes, and whether they go through the talker step by step.
        handling: what was done with its words.
    """

    id: str
    lyrics: Lyrics
    settings: Mapping[str, Sourced[Any]]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    codes: SongCodes | None = None
    exact: bool = False
    handling: Handling = Handling()

    def value(self, name: str) -> Any:
        return self.settings[name].value


@dataclass(frozen=True)
class PlannedSong:
    """One take: its request, its file, and what will be done.

    Attributes:
        action: `render` or `keep`.
        reason: why, for the plan.
    """

    request: SongRequest
    path: Path
    action: str
    reason: str


@dataclass(frozen=True)
class Plan:
    songs: tuple[PlannedSong, ...]
    checkpoint: Checkpoint
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sources: tuple[Song, ...] = field(default=(), repr=False)
    keep_codes: bool = False

    @property
    def to_render(self) -> list[PlannedSong]:
        return [song for song in self.songs if song.action == "render"]


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
    layers = [Layer(flags, {name: f"--{name.replace('_', '-')}" for name in flags}, is_flags=True)]
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
    lyrics, notes = (instrumental_lyrics(None), list[str]()) if handling.instrumental else read_lyrics(file, handling)
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
            loaded = load_preset(preset.value)
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
        placed = placed_caption(caption, lyrics, loaded, handling)
        warnings = check_words(lyrics, placed, caption.value, ceiling, handling.stops)
    stem = "instrumental" if handling.instrumental else "stdin" if file == "-" else Path(file).stem
    return Song(safe_name(stem), lyrics, settings, tuple(notes), tuple(warnings), handling=handling)


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


def with_unique_ids(songs: Sequence[Song]) -> list[Song]:
    """Equal ids are told apart by `-2`, `-3`, …"""
    seen: dict[str, int] = {}
    unique = []
    for song in songs:
        seen[song.id] = seen.get(song.id, 0) + 1
        unique.append(replace(song, id=f"{song.id}-{seen[song.id]}") if seen[song.id] > 1 else song)
    return unique


def make_plan(
    songs: Sequence[Song],
    checkpoint: Checkpoint,
    default_dtype: Callable[[], str],
    output: str | None,
    on_exists: str,
    keep_codes: bool = False,
    default_weights: Callable[[Checkpoint], str] = lambda checkpoint: "full",
) -> Plan:
    """Expand takes, count tokens, set ceilings, and decide about every file.

    Args:
        default_dtype: what the talker dtype `auto` means on the chosen device; asked when all else is right.
        keep_codes: a song is finished only with its codes file.
        default_weights: what the talker weights `auto` mean on the chosen device; asked as `default_dtype` is.

    Raises:
        InputError, OutputError, ManyErrors: all that is wrong.
    """
    from music3_cli.audio.formats import check_writable
    from music3_cli.song.codes import check_codes

    tokenizer = PromptTokenizer.from_file(checkpoint.tokenizer_file)
    takes = max(int(song.value("takes")) for song in songs)
    template = output_template(output, sum(int(song.value("takes")) for song in songs), takes)
    ending = fixed_ending(template)
    notes = [note for song in songs for note in song.notes]
    warnings = [warning for song in songs for warning in song.warnings]
    errors: list[Music3Error] = []
    takes_to_place: list[tuple[SongRequest, Path]] = []
    used: dict[Path, str] = {}
    for index, song in enumerate(songs, start=1):
        try:
            prompt = tokenizer.prompt(song.value("caption"), song.lyrics.text)
            check_prompt_length(prompt, song.lyrics.source.name)
            if song.codes is not None:
                check_codes(song.codes, song.lyrics.source.name, checkpoint.digest)
            delivery = make_delivery(song.settings, ending)
            check_writable(delivery.format)
            if song.codes is None:
                warnings.extend(size_warnings(song.lyrics, song.value("caption"), len(prompt.ids), song.handling))
            max_frames, note = _ceiling(song, prompt, checkpoint)
            notes.extend(note)
            first_seed, note = _first_seed(song)
            notes.extend(note)
            for take in range(1, int(song.value("takes")) + 1):
                request = _request(song, prompt, delivery, first_seed + take - 1, take, max_frames)
                fields = {
                    "id": song.id,
                    "title": request.title or song.id,
                    "index": f"{index:02d}",
                    "take": take,
                    "seed": request.seed,
                    "preset": song.value("preset") or "caption",
                    "ext": FORMATS[delivery.format].endings[0],
                }
                path = fill_template(template, fields)
                owner = used.setdefault(_same_file_key(path), request.id)
                if owner != request.id:
                    raise OutputError(
                        f"{path}: both {owner} and {request.id} would be written there",
                        hint="Put {index}, {take} or {seed} into the -o template.",
                    )
                takes_to_place.append((request, path))
        except Music3Error as error:
            errors.append(error)
    raise_all(errors)
    dtype, weights = cache(default_dtype), cache(lambda: default_weights(checkpoint))
    planned = _place(takes_to_place, dtype, weights, on_exists, checkpoint.digest, keep_codes)
    # A caption of a flag or a preset is every song's, and told about once.
    unique = tuple(dict.fromkeys(warnings))
    return Plan(tuple(planned), checkpoint, tuple(notes), unique, tuple(songs), keep_codes)


def _ceiling(song: Song, prompt: Prompt, checkpoint: Checkpoint) -> tuple[int, list[str]]:
    name, wanted = song.lyrics.source.name, song.settings["max_duration"]
    left = min(MAX_FRAMES, frames_left(prompt, checkpoint.architecture.backbone.max_position_embeddings))
    if left < 1:
        raise InputError(
            f"{name}: the prompt of {len(prompt.ids)} tokens leaves no room for sound", hint="Shorten the lyrics."
        )
    if wanted.value is not None:
        if wanted.value > left:
            raise InputError(
                f"{wanted.source}: max duration {clock(frames_to_seconds(wanted.value))} is more than the prompt of "
                f"{len(prompt.ids)} tokens leaves; 0.04 s to {clock(frames_to_seconds(left))} was expected",
                hint="Lower the ceiling or shorten the lyrics.",
            )
        return int(wanted.value), []
    if checkpoint.default_max_frames:
        return min(left, checkpoint.default_max_frames), []
    if left < MAX_FRAMES:
        return left, [
            f"{name}: the prompt of {len(prompt.ids)} tokens leaves at most {clock(frames_to_seconds(left))} of sound"
        ]
    return left, []


def _first_seed(song: Song) -> tuple[int, list[str]]:
    seed, takes = song.settings["seed"], int(song.value("takes"))
    if seed.value == "random":
        drawn = secrets.randbelow(2**63)
        return drawn, [f"{song.lyrics.source.name}: seed {drawn} was drawn"]
    if seed.value + takes - 1 > MAX_SEED:
        raise InputError(f"{seed.source}: seed {seed.value} with {takes} takes passes the largest seed {MAX_SEED}")
    return int(seed.value), []


def _request(song: Song, prompt: Prompt, delivery: Delivery, seed: int, take: int, max_frames: int) -> SongRequest:
    return SongRequest(
        id=song.id if song.value("takes") == 1 else f"{song.id}-take{take}",
        title=song.value("title"),
        artist=song.value("artist"),
        album=song.value("album"),
        track=song.value("track"),
        source=Path(song.lyrics.source.name).name,
        words_flags=song.handling.flags,
        lyrics=song.lyrics.text,
        caption=song.value("caption"),
        prompt=prompt,
        seed=seed,
        noise_seed=song.value("noise_seed"),
        take=take,
        max_frames=max_frames,
        steps=song.value("steps"),
        shift=song.value("shift"),
        guidance=song.value("guidance"),
        seed_scheme=song.value("seed_scheme"),
        precision=song.value("precision"),
        talker_dtype=song.value("talker_dtype"),
        talker_weights=song.value("talker_weights"),
        delivery=delivery,
        codes=song.codes,
        exact=song.exact,
        fast=song.value("fast"),
    )


def _same_file_key(path: Path) -> Path:
    """Equal for paths that a case-insensitive file system takes for one."""
    return Path(os.path.normpath(Path.cwd() / path).casefold())


def _place(
    takes: Sequence[tuple[SongRequest, Path]],
    default_dtype: Callable[[], str],
    default_weights: Callable[[], str],
    on_exists: str,
    digest: str,
    keep_codes: bool,
) -> list[PlannedSong]:
    """Decide about every file, and check that every folder takes one."""
    errors: list[Music3Error] = []
    planned: list[PlannedSong] = []
    for request, path in takes:
        if request.talker_dtype == "auto":
            request = replace(request, talker_dtype=default_dtype())
        if request.talker_weights == "auto":
            request = replace(request, talker_weights=default_weights())
        try:
            planned.append(_decide(request, path, on_exists, digest, keep_codes))
        except Music3Error as error:
            errors.append(error)
    raise_all(errors)
    _check_folders(planned)
    return planned


def _decide(request: SongRequest, path: Path, on_exists: str, digest: str, keep_codes: bool) -> PlannedSong:
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; a file was to be written there")
    if not path.exists():
        return PlannedSong(request, path, "render", "new")
    if on_exists == "overwrite":
        return PlannedSong(request, path, "render", "overwrites")
    if on_exists == "number":
        return PlannedSong(request, numbered(path), "render", f"{path.name} exists")
    if on_exists == "keep" and is_done(path, request.key(digest)):
        if keep_codes and not has_codes(path):
            return PlannedSong(request, path, "render", "finished, but without its codes")
        return PlannedSong(request, path, "keep", "finished already")
    why = differences(path, request.audio_settings(), digest) if on_exists == "keep" else "the policy is error"
    raise OutputError(
        f"{path}: exists and is kept ({why})" if on_exists == "keep" else f"{path}: exists ({why})",
        hint="Choose another -o, or --on-exists overwrite or number.",
    )


def _check_folders(planned: Sequence[PlannedSong]) -> None:
    """Every folder can be made and written, found out before hours of rendering."""
    errors: list[Music3Error] = []
    for folder in sorted({song.path.parent for song in planned if song.action == "render"}):
        there = folder
        while not there.exists() and there != there.parent:
            there = there.parent
        if not there.is_dir():
            errors.append(OutputError(f"{there}: is a file; a folder was expected for {folder}"))
        elif not os.access(there, os.W_OK | os.X_OK):
            errors.append(
                OutputError(f"{folder}: not writable", hint="Choose another -o, or change the folder's permissions.")
            )
    raise_all(errors)
