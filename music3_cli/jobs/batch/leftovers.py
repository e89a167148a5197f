"""Unfinished files of runs that were killed. Only for whoever holds the folder's lock.

`music3 render` takes no lock, so files of processes that live on this machine are left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from music3_cli.files import PARTIAL_PREFIX
from music3_cli.jobs.plan import PlannedSong

_UNFINISHED = re.compile(re.escape(PARTIAL_PREFIX) + r"(?P<pid>\d+)-(?P<name>.+)")


def remove_leftovers(folder: Path, songs: Iterable[PlannedSong], whole: bool) -> int:
    """Remove unfinished files of these songs; where the whole folder is held, of all songs. Returns how many."""
    names: dict[Path, set[str]] = {folder: set()}
    for song in songs:
        names.setdefault(song.path.parent, set()).add(song.path.name)
    removed = 0
    for parent, own in names.items():
        for path in parent.glob(f"{PARTIAL_PREFIX}*") if parent.is_dir() else ():
            matched = _UNFINISHED.fullmatch(path.name)
            ours = matched and (whole or _song_of(matched["name"]) in own)
            if matched and ours and path.is_file() and not _belongs_to_another(int(matched["pid"])):
                path.unlink(missing_ok=True)
                removed += 1
    return removed


def _belongs_to_another(pid: int) -> bool:
    """Whether another process of this number is alive; False where that cannot be asked."""
    if pid == os.getpid() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # somebody else's, or no number of a process
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return not Path("/proc/self").exists()
    return state != "Z"  # ended, and nobody has asked how


def _song_of(name: str) -> str:
    """The audio file that an unfinished file, sidecar, codes file or spool belongs to."""
    for ending in (".json", ".codes.safetensors", ".samples", ".pages"):
        name = name.removesuffix(ending)
    return name
