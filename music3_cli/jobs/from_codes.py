"""Songs from codes files: the talker's half is done, settings of the acoustic half may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from music3_cli.errors import InputError, Music3Error, UsageError, raise_all, system_errors_as
from music3_cli.jobs.naming import safe_name
from music3_cli.jobs.songs import Song, flag_layer, with_unique_ids
from music3_cli.song.codes import CODES_ENDING, read_codes
from music3_cli.song.delivery import ENDINGS
from music3_cli.song.limits import frames_to_seconds
from music3_cli.song.lyrics import Lyrics
from music3_cli.song.settings import Layer, Sourced, resolve
from music3_cli.song.text import SourceText

FIXED = ("caption", "preset", "seed", "takes", "max_duration", "seed_scheme")
"""Settings that the codes were drawn with."""
RECORDED = (
    "caption",
    "seed",
    "seed_scheme",
    "noise_seed",
    "steps",
    "shift",
    "guidance",
    "precision",
    "talker_dtype",
    "talker_weights",
)
NAMES = ("title", "artist", "album", "track")


def read_code_songs(files: Sequence[str], flags: Mapping[str, object], exact: bool) -> list[Song]:
    """Read codes files; flags are stronger than what the files record.

    Args:
        flags: raw values of flags by setting name; None where not given.
        exact: derive the hiddens step by step.

    Raises:
        UsageError: a flag that would need other codes.
        InputError, ManyErrors: everything that is wrong with any of the files.
    """
    for name in FIXED:
        if flags.get(name) is not None:
            hint = "--noise-seed changes the acoustic stage's noise." if name == "seed" else "Leave it out."
            raise UsageError(
                f"--{name.replace('_', '-')} does not go with --from-codes: the codes are drawn", hint=hint
            )
    layer = flag_layer(flags)
    songs: list[Song] = []
    errors: list[Music3Error] = []
    for file in files:
        try:
            songs.append(_read(Path(file), layer, exact))
        except Music3Error as error:
            errors.append(error)
    raise_all(errors)
    return with_unique_ids(songs)


@system_errors_as(InputError)
def _read(path: Path, flags: Layer, exact: bool) -> Song:
    codes = read_codes(path)
    recorded = codes.record["settings"]
    lyrics = recorded.get("lyrics")
    if not isinstance(lyrics, str):
        raise InputError(f"{path}: its record has no lyrics", hint="Render the song again with --keep-codes.")
    values = {name: recorded.get(name) for name in RECORDED}
    values |= {name: codes.record["song"].get(name) or None for name in NAMES}
    values["max_duration"] = frames_to_seconds(codes.frames)
    settings = resolve([flags, Layer(values, dict.fromkeys(values, str(path)))])
    settings["preset"] = Sourced("", "built-in")
    for name in ("talker_dtype", "talker_weights"):
        if exact and settings[name].value != recorded.get(name, settings[name].value):
            raise UsageError(
                f"{settings[name].source} {settings[name].value} does not go with --exact: {path} was made with "
                f"{recorded[name]}"
            )
    # The words are the record's; the name is the file's, for messages.
    source = Lyrics(SourceText(path.name, lyrics), lyrics)
    return Song(_song_id(path), source, settings, codes=codes, exact=exact)


def _song_id(path: Path) -> str:
    """`night.wav.codes.safetensors` is the song `night`."""
    name = path.name.removesuffix(CODES_ENDING)
    stem, _, ending = name.rpartition(".")
    return safe_name(stem if stem and ending.lower() in ENDINGS else name)
