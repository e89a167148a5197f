"""Unfinished files of runs that were killed. Only for whoever holds the folder's lock."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from music3_cli.files import PARTIAL_PREFIX
from music3_cli.jobs.plan import PlannedSong

_UNFINISHED = re.compile(re.escape(PARTIAL_PREFIX) + r"\d+-(?P<name>.+)")


def remove_leftovers(folder: Path, songs: Iterable[PlannedSong], whole: bool) -> int:
    """Remove unfinished files of these songs; where the whole folder is held, of all songs. Returns how many."""
    names: dict[Path, set[str]] = {folder: set()}
    for song in songs:
        names.setdefault(song.path.parent, set()).add(song.path.name)
    removed = 0
    for parent, own in names.items():
        for path in parent.glob(f"{PARTIAL_PREFIX}*") if parent.is_dir() else ():
            matched = _UNFINISHED.fullmatch(path.name)
            if matched and path.is_file() and (whole or _song_of(matched["name"]) in own):
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def _song_of(name: str) -> str:
    """The audio file that an unfinished file, sidecar, codes file or spool belongs to."""
    for ending in (".json", ".codes.safetensors", ".samples", ".pages"):
        name = name.removesuffix(ending)
    return name
