"""What a batch will do: every take of a manifest with its file, and whether it is new, missing, changed or kept."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path, PurePath

from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.errors import InputError, ManyErrors, Music3Error, OutputError, UsageError, system_errors_as
from music3_cli.jobs.manifest_songs import ManifestSongs, Unusable
from music3_cli.jobs.naming import fill_template
from music3_cli.jobs.plan import OVERWRITES, PlannedSong, Planner, check_folders, draw_seed, name_fields
from music3_cli.jobs.sidecar import differences, has_codes, is_done, read_sidecar, sidecar_path
from music3_cli.jobs.songs import Song
from music3_cli.song.delivery import ENDINGS, make_delivery
from music3_cli.song.manifest.template import check_song_template, fields_of, with_ending
from music3_cli.song.request import SongRequest

ON_EXISTS = ("update", "overwrite", "error")


@dataclass(frozen=True)
class Shard:
    """Every `count`-th take from number `index` on, counted from 0."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From `I/N`.

        Raises:
            UsageError: not of that form.
        """
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            raise UsageError(f"--shard {text}: I/N was expected, I from 0 to N - 1, such as 0/3")
        return cls(int(index), int(count))

    @property
    def is_whole(self) -> bool:
        return self.count == 1

    @property
    def label(self) -> str:
        """For names of files; empty for the whole plan."""
        return "" if self.is_whole else f"{self.index}-of-{self.count}"


@dataclass(frozen=True)
class BatchPlan:
    """A batch, decided.

    Attributes:
        songs: this shard's takes and unusable songs, in the manifest's order.
        chosen: ids of the takes to render now; all others wait (`--only`, `--limit`).
        faults: what is wrong with the manifest and has no song in `songs`.
        clashes: what no song can be left out for: one run cannot do it all.
        errors: everything that is wrong, of the whole manifest.
    """

    folder: Path
    manifest: Path
    title: str
    checkpoint: Checkpoint
    songs: tuple[PlannedSong | Unusable, ...]
    chosen: frozenset[str]
    shard: Shard
    faults: tuple[Music3Error, ...] = ()
    clashes: tuple[Music3Error, ...] = ()
    errors: tuple[Music3Error, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def takes(self) -> list[PlannedSong]:
        return [song for song in self.songs if isinstance(song, PlannedSong)]

    @property
    def to_render(self) -> list[PlannedSong]:
        return [song for song in self.takes if song.action == "render" and song.request.id in self.chosen]

    @property
    def kept(self) -> list[PlannedSong]:
        return [song for song in self.takes if song.action == "keep"]

    @property
    def unusable(self) -> list[Unusable]:
        return [song for song in self.songs if isinstance(song, Unusable)]


@dataclass
class Choices:
    """What of a plan is carried out, and how files that exist are treated."""

    on_exists: str = "update"
    keep_codes: bool = False
    shard: Shard = field(default_factory=Shard)
    only: Sequence[str] = ()
    limit: int | None = None


@system_errors_as(OutputError)
def output_place(output: str | None, manifest: ManifestSongs) -> tuple[Path, str]:
    """The output folder, and the template of names in it; an empty one means the usual names.

    Raises:
        UsageError: `-o` is no folder and no template that stays in one.
    """
    if output is None:
        return Path(manifest.path.stem), manifest.output
    if not output.strip():
        raise UsageError("--output: it is empty; a folder was expected")
    parts = PurePath(output).parts
    first = next((index for index, part in enumerate(parts) if "{" in part), None)
    if first is None:
        no_folder = output == "-" or Path(output).suffix.lower() in (".wav", ".flac", ".mp3", ".ogg", ".opus")
        if no_folder or Path(output).is_file():
            raise UsageError(f"--output {output}: a folder was expected, or a template such as {{index}}-{{title}}.wav")
        return Path(output), manifest.output
    template = str(PurePath(*parts[first:]))
    try:
        check_song_template(template)
    except ValueError as error:
        raise UsageError(f"--output {output}: {error}") from None
    return Path(*parts[:first]), with_ending(template)


@system_errors_as(OutputError)
def make_batch_plan(
    manifest: ManifestSongs,
    checkpoint: Checkpoint,
    default_dtype: Callable[[], str],
    default_weights: Callable[[], str],
    output: str | None,
    choices: Choices,
) -> BatchPlan:
    """Decide about every take; what is wrong stands in the plan's `errors`.

    Raises:
        UsageError: choices that do not fit the manifest.
        OutputError, ManyErrors: the folder cannot be written.
    """
    folder, template = output_place(output, manifest)
    planner = Planner(checkpoint, InputError)  # names are the manifest's
    dtype, weights = cache(default_dtype), cache(default_weights)
    songs: list[PlannedSong | Unusable] = []

    def unusable(song: Song, id: str, error: Music3Error) -> None:
        parts = error.errors if isinstance(error, ManyErrors) else (error,)
        songs.append(Unusable(id, song.value("title"), song.value("artist"), tuple(parts)))

    for song in manifest.songs:
        if isinstance(song, Unusable):
            songs.append(song)
            continue
        try:
            if song.settings["seed"].value == "random" and song.takes > 1 and not choices.shard.is_whole:
                raise InputError(
                    f"{song.settings['seed'].source}: shards would each draw another random seed for its takes",
                    hint="Write a number, or render without --shard.",
                )
            usual = "{id}-take{take}.{ext}" if song.takes > 1 else "{id}.{ext}"
            path = str(folder).replace("{", "{{").replace("}", "}}") + "/" + (template or usual)
            takes = planner.takes(song, song.index, path, partial(_seed, template=path))
            planner.notes += song.notes
            planner.warnings += song.warnings
            for request, file in takes:
                if request.talker_dtype == "auto":
                    request = replace(request, talker_dtype=dtype())
                if request.talker_weights == "auto":
                    request = replace(request, talker_weights=weights())
                keep_codes = choices.keep_codes or song.keep_codes
                try:
                    planned = _decide(request, file, checkpoint.digest, choices.on_exists, keep_codes)
                    songs.append(replace(planned, preset=song.value("preset")))
                except Music3Error as error:  # of this take alone
                    unusable(song, request.id, error)
        except Music3Error as error:
            unusable(song, song.id, error)
    clashes = []
    for what in ("talker_dtype", "talker_weights"):
        values = sorted({getattr(song.request, what) for song in songs if isinstance(song, PlannedSong)})
        if len(values) > 1:
            name = what.replace("_", " ")
            clashes.append(InputError(f"{manifest.path}: {name} {' and '.join(values)}: one for all was expected"))
    errors = [error for song in songs if isinstance(song, Unusable) for error in song.errors]
    if not errors and not manifest.faults:
        planner.notes += _about_others([song.path for song in songs if isinstance(song, PlannedSong)])
    shard = choices.shard
    mine = [song for number, song in enumerate(songs) if number % shard.count == shard.index]
    plan = BatchPlan(
        folder,
        manifest.path,
        manifest.title or manifest.path.stem,
        checkpoint,
        tuple(mine),
        _chosen(songs, mine, choices),
        shard,
        manifest.faults,
        tuple(clashes),
        (*manifest.faults, *errors, *clashes),
        tuple(dict.fromkeys(planner.notes)),
        tuple(dict.fromkeys(planner.warnings)),
    )
    check_folders(plan.to_render)
    return plan


def _seed(song: Song, template: str) -> tuple[int, list[str]]:
    """The first take's seed. One that is to be random is drawn once: later runs take it from a file that is there.

    Raises:
        InputError: it could not be found again.
    """
    seed = song.settings["seed"]
    if seed.value == "random":
        if "seed" in fields_of(template):
            raise InputError(
                f"{seed.source}: a random seed cannot be found again by a name with {{seed}}",
                hint="Write a number, or leave {seed} out of the output template.",
            )
        delivery = make_delivery(song.settings, None)
        for take in range(1, song.takes + 1):
            sidecar = read_sidecar(fill_template(template, name_fields(song, song.index, take, "", delivery))) or {}
            drawn = sidecar.get("settings", {}).get("seed")
            if isinstance(drawn, int) and drawn >= take - 1:
                return drawn - take + 1, []
    return draw_seed(song)


@system_errors_as(OutputError)
def _decide(request: SongRequest, path: Path, digest: str, on_exists: str, keep_codes: bool) -> PlannedSong:
    """What happens to one file, and why."""
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; a file was to be written there")

    def render(reason: str) -> PlannedSong:
        return PlannedSong(request, path, "render", reason, keep_codes)

    if not path.exists():
        return render("missing: its sidecar is there" if sidecar_path(path).exists() else "new")
    if on_exists == "overwrite":
        return render(OVERWRITES)
    if is_done(path, request.key(digest)):
        if keep_codes and not has_codes(path):
            return render("changed: finished, but without its codes")
        return PlannedSong(request, path, "keep", "finished already", keep_codes)
    if read_sidecar(path) is None:
        raise OutputError(
            f"{path}: exists and has no sidecar, so music3 did not make it",
            hint="Move it away, choose another -o, or use --on-exists overwrite.",
        )
    if on_exists == "error":
        raise OutputError(f"{path}: exists and is another song (the policy is error)")
    return render(f"changed: {differences(path, request.audio_settings(), digest)}")


def _about_others(paths: Sequence[Path]) -> list[str]:
    """A note about songs of music3's in the same folders that the manifest does not name: other ids or another template
    leave them behind.
    """
    own, others = set(paths), list[Path]()
    for folder in sorted({path.parent for path in own}):
        for sidecar in sorted(folder.glob("*.json")):
            audio = sidecar.with_suffix("")
            song = audio not in own and audio.suffix.lower().lstrip(".") in ENDINGS and audio.is_file()
            others += [audio] if song and read_sidecar(audio) is not None else []
    if not others:
        return []
    names = ", ".join(str(path) for path in others[:3]) + (", …" if len(others) > 3 else "")
    return [f"left alone, as the manifest does not name {'them' if len(others) > 1 else 'it'}: {names}"]


def _chosen(
    all_songs: Sequence[PlannedSong | Unusable], mine: Sequence[PlannedSong | Unusable], choices: Choices
) -> frozenset[str]:
    """Ids of the takes that are rendered now."""
    takes = [song for song in mine if isinstance(song, PlannedSong) and song.action == "render"]
    if choices.only:
        names = {name for song in all_songs if isinstance(song, PlannedSong) for name in _names(song)}
        for pattern in choices.only:
            if pattern not in names and not any(fnmatchcase(name, pattern) for name in names):
                near = get_close_matches(pattern, names, n=1)
                raise UsageError(
                    f"--only {pattern}: no song of the manifest is called so",
                    hint=f"Did you mean {near[0]}?" if near else "--dry-run lists all of them.",
                )
        takes = [song for song in takes if any(_is_called(song, pattern, names) for pattern in choices.only)]
    if choices.limit is not None:
        takes = takes[: choices.limit]
    return frozenset(song.request.id for song in takes)


def _names(song: PlannedSong) -> set[str]:
    """What a take is called: its own id, and its song's."""
    id = song.request.id
    return {id, id.removesuffix(f"-take{song.request.take}")}


def _is_called(song: PlannedSong, pattern: str, names: Container[str]) -> bool:
    """By its name as it stands, which may have brackets; only where nothing is called so, by a pattern."""
    own = _names(song)
    return pattern in own if pattern in names else any(fnmatchcase(name, pattern) for name in own)
