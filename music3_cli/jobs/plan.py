"""Everything that is decided before a weight is loaded: prompts, ceilings, files and what happens to them.

All that is wrong is found here and reported at once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.errors import InputError, Music3Error, OutputError, raise_all, system_errors_as
from music3_cli.jobs.naming import fill_template, fixed_ending, numbered, output_template
from music3_cli.jobs.sidecar import differences, has_codes, is_done
from music3_cli.jobs.songs import Song
from music3_cli.jobs.words import size_warnings
from music3_cli.song.delivery import FORMATS, Delivery, make_delivery
from music3_cli.song.limits import MAX_FRAMES, MAX_SEED, clock, frames_to_seconds
from music3_cli.song.prompt import Prompt, PromptTokenizer, check_prompt_length, frames_left
from music3_cli.song.request import SongRequest

ON_EXISTS = ("keep", "overwrite", "number", "error")
OVERWRITES = "overwrites"
"""The reason of a song that is rendered whatever is there."""


@dataclass(frozen=True)
class PlannedSong:
    """One take: its request, its file, and what will be done.

    Attributes:
        action: `render` or `keep`.
        reason: why, for the plan.
        keep_codes: the song is finished only with its codes file.
        preset: whose caption it has, or empty.
    """

    request: SongRequest
    path: Path
    action: str
    reason: str
    keep_codes: bool = False
    preset: str = ""


@dataclass(frozen=True)
class Plan:
    songs: tuple[PlannedSong, ...]
    checkpoint: Checkpoint
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sources: tuple[Song, ...] = field(default=(), repr=False)

    @property
    def to_render(self) -> list[PlannedSong]:
        return [song for song in self.songs if song.action == "render"]


def longest_first(songs: Iterable[PlannedSong]) -> list[PlannedSong]:
    """The order of rendering; songs of one ceiling stay in order."""
    return sorted(songs, key=lambda song: -song.request.max_frames)


class Planner:
    """Expands songs into takes with their prompts, ceilings and files, and keeps what it has to tell.

    Args:
        collision: the error for two songs in one file.

    Attributes:
        notes, warnings: so far.
    """

    def __init__(self, checkpoint: Checkpoint, collision: type[Music3Error] = OutputError) -> None:
        self.checkpoint = checkpoint
        self._collision = collision
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self._tokenizer = PromptTokenizer.from_file(checkpoint.tokenizer_file)
        self._owners: dict[Path, str] = {}
        self._ids: set[str] = set()

    def takes(
        self, song: Song, index: int, template: str, first_seed: Callable[[Song], tuple[int, list[str]]] | None = None
    ) -> list[tuple[SongRequest, Path]]:
        """Every take of a song and its file.

        Args:
            index: of the song, counted from 1, for names.
            template: of the output path.
            first_seed: chooses the first take's seed; by default a random one is drawn.

        Raises:
            InputError, UsageError, OutputError: what is wrong with it.
        """
        from music3_cli.audio.formats import check_writable
        from music3_cli.song.codes import check_codes

        prompt = self._tokenizer.prompt(song.value("caption"), song.lyrics.text)
        check_prompt_length(prompt, song.lyrics.source.name)
        if song.codes is not None:
            check_codes(song.codes, song.lyrics.source.name, self.checkpoint.digest)
        delivery = make_delivery(song.settings, fixed_ending(template))
        check_writable(delivery.format)
        if song.codes is None:
            self.warnings += size_warnings(song.lyrics, song.value("caption"), len(prompt.ids), song.handling)
        max_frames, notes = _ceiling(song, prompt, self.checkpoint)
        seeds: Sequence[int] = song.seeds
        if not seeds:
            first, more = (first_seed or draw_seed)(song)
            seeds = range(first, first + song.takes)
            notes += more
        self.notes += notes
        found = []
        for take, seed in enumerate(seeds, start=1):
            request = _request(song, prompt, delivery, seed, take, max_frames)
            path = fill_template(template, name_fields(song, index, take, seed, delivery))
            self._claim(request.id, path)
            found.append((request, path))
        return found

    def _claim(self, id: str, path: Path) -> None:
        if id in self._ids:
            raise InputError(f"two songs are called {id}", hint="Give one of them another id.")
        self._ids.add(id)
        owner = self._owners.setdefault(_same_file_key(path), id)
        if owner != id:
            raise self._collision(
                f"{path}: both {owner} and {id} would be written there",
                hint="Put {index}, {take} or {seed} into the output template.",
            )


def name_fields(song: Song, index: int, take: int, seed: object, delivery: Delivery) -> dict[str, object]:
    """What a template's fields are for one take."""
    return {
        "id": song.id,
        "title": song.value("title") or song.id,
        "index": f"{index:02d}",
        "take": take,
        "seed": seed,
        "preset": song.value("preset") or "caption",
        "ext": FORMATS[delivery.format].endings[0],
    }


@system_errors_as(OutputError)
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
    planner = Planner(checkpoint)
    template = output_template(output, sum(song.takes for song in songs), max(song.takes for song in songs))
    planner.notes += [note for song in songs for note in song.notes]
    planner.warnings += [warning for song in songs for warning in song.warnings]
    errors: list[Music3Error] = []
    takes_to_place: list[tuple[SongRequest, Path]] = []
    for index, song in enumerate(songs, start=1):
        try:
            takes_to_place += planner.takes(song, index, template)
        except Music3Error as error:
            errors.append(error)
    raise_all(errors)
    dtype, weights = cache(default_dtype), cache(lambda: default_weights(checkpoint))
    planned = _place(takes_to_place, dtype, weights, on_exists, checkpoint.digest, keep_codes)
    # A caption of a flag or a preset is every song's, and told about once.
    return Plan(tuple(planned), checkpoint, tuple(planner.notes), tuple(dict.fromkeys(planner.warnings)), tuple(songs))


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


def draw_seed(song: Song) -> tuple[int, list[str]]:
    """The first take's seed, and a note where it was drawn."""
    seed, takes = song.settings["seed"], song.takes
    if seed.value == "random":
        drawn = secrets.randbelow(2**63)
        return drawn, [f"{song.lyrics.source.name}: seed {drawn} was drawn"]
    if seed.value + takes - 1 > MAX_SEED:
        raise InputError(f"{seed.source}: seed {seed.value} with {takes} takes passes the largest seed {MAX_SEED}")
    return int(seed.value), []


def _request(song: Song, prompt: Prompt, delivery: Delivery, seed: int, take: int, max_frames: int) -> SongRequest:
    return SongRequest(
        id=song.id if song.takes == 1 else f"{song.id}-take{take}",
        title=song.value("title"),
        artist=song.value("artist"),
        album=song.value("album"),
        track=song.value("track"),
        source=song.source or Path(song.lyrics.source.name).name,
        tags=song.tags,
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
    check_folders(planned)
    return planned


def _decide(request: SongRequest, path: Path, on_exists: str, digest: str, keep_codes: bool) -> PlannedSong:
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; a file was to be written there")
    if not path.exists():
        return PlannedSong(request, path, "render", "new", keep_codes)
    if on_exists == "overwrite":
        return PlannedSong(request, path, "render", OVERWRITES, keep_codes)
    if on_exists == "number":
        return PlannedSong(request, numbered(path), "render", f"{path.name} exists", keep_codes)
    if on_exists == "keep" and is_done(path, request.key(digest)):
        if keep_codes and not has_codes(path):
            return PlannedSong(request, path, "render", "finished, but without its codes", keep_codes)
        return PlannedSong(request, path, "keep", "finished already", keep_codes)
    why = differences(path, request.audio_settings(), digest) if on_exists == "keep" else "the policy is error"
    raise OutputError(
        f"{path}: exists and is kept ({why})" if on_exists == "keep" else f"{path}: exists ({why})",
        hint="Choose another -o, or --on-exists overwrite or number.",
    )


def check_folders(planned: Sequence[PlannedSong]) -> None:
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
