"""`batch.json`: what a batch's last run found and did, a song at a time, for scripts and for the audition page.

It is a report, never state: a rerun asks audio files and sidecars alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from music3_cli.errors import OutputError
from music3_cli.events import SongFailed, SongFinished
from music3_cli.files import write_whole
from music3_cli.jobs.batch.plan import BatchPlan, Shard
from music3_cli.jobs.manifest_songs import Unusable
from music3_cli.jobs.plan import PlannedSong
from music3_cli.jobs.sidecar import read_sidecar, sidecar_path

FORMAT = 1


@dataclass
class Outcomes:
    """What has become of songs so far.

    Attributes:
        kept: ids of songs that were finished before.
    """

    finished: dict[str, SongFinished] = field(default_factory=dict)
    failed: dict[str, SongFailed] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)

    @property
    def audio_seconds(self) -> float:
        return sum(song.audio_seconds for song in self.finished.values())


def record_name(shard: Shard) -> str:
    return f"batch.{shard.label}.json" if shard.label else "batch.json"


def read_pace(folder: Path, shard: Shard) -> float | None:
    """Seconds of sound a second of the last run here that rendered something; None where there was none."""
    try:
        pace = json.loads((folder / record_name(shard)).read_bytes())["pace"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return float(pace) if isinstance(pace, int | float) and pace > 0 else None


def write_record(plan: BatchPlan, outcomes: Outcomes, seconds: float, exit_code: int) -> dict[str, Any]:
    """Write `batch.json` (of a shard: `batch.I-of-N.json`) and return its content.

    Raises:
        OutputError: the folder does not take it.
    """
    pace = outcomes.audio_seconds / seconds if outcomes.finished and seconds > 0 else None
    songs = [
        _unusable(song) if isinstance(song, Unusable) else _take(song, plan.folder, outcomes) for song in plan.songs
    ]
    content = {
        "format": FORMAT,
        "title": plan.title,
        "manifest": plan.manifest.name,
        "shard": plan.shard.label or None,
        "checkpoint": {
            "name": plan.checkpoint.name,
            "digest": plan.checkpoint.digest,
            "demo": plan.checkpoint.is_demo,
        },
        "finished": not plan.faults and all(song["status"] in ("rendered", "kept") for song in songs),
        "exit_code": exit_code,
        "seconds": round(seconds, 3),
        "pace": round(pace, 4) if pace else read_pace(plan.folder, plan.shard),
        "faults": [{"message": fault.message, "hint": fault.hint} for fault in plan.faults],
        "songs": songs,
    }
    path = plan.folder / record_name(plan.shard)
    try:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_whole(path, text.encode(errors="backslashreplace"))  # a file's name may be no UTF-8
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from None
    return content


def _take(song: PlannedSong, folder: Path, outcomes: Outcomes) -> dict[str, Any]:
    request, id = song.request, song.request.id
    failed, finished = outcomes.failed.get(id), outcomes.finished.get(id)
    status = "failed" if failed else "rendered" if finished else "kept" if id in outcomes.kept else "not_started"
    is_there = status in ("rendered", "kept")
    sidecar = (read_sidecar(song.path) if is_there else None) or {}
    result: Mapping[str, Any] = sidecar.get("result", {})
    settings = {name: value for name, value in request.audio_settings().items() if name not in ("lyrics", "caption")}
    return {
        "id": id,
        "title": request.title,
        "artist": request.artist,
        "take": request.take,
        "seed": request.seed,
        "preset": song.preset,
        "caption": request.caption,
        "lyrics": request.lyrics,
        "status": status,
        "file": song.path.relative_to(folder).as_posix() if is_there else None,
        "sidecar": sidecar_path(song.path).relative_to(folder).as_posix() if is_there else None,
        "seconds": result.get("seconds"),
        "frames": result.get("frames"),
        "finish_reason": result.get("finish_reason"),
        "warnings": list(sidecar.get("warnings", ())),
        "error": {"message": failed.message, "hint": failed.hint} if failed else None,
        "sha256": result.get("sha256"),
        "timings": dict(finished.timings) if finished else None,
        "settings": settings,
    }


def _unusable(song: Unusable) -> dict[str, Any]:
    empty = ("file", "sidecar", "seconds", "frames", "finish_reason", "sha256", "timings")
    return {
        "id": song.id,
        "title": song.title,
        "artist": song.artist,
        "take": 1,
        "seed": None,
        "preset": "",
        "caption": "",
        "lyrics": "",
        "status": "skipped",
        "warnings": [],
        "error": {"message": "\n".join(error.message for error in song.errors), "hint": song.errors[0].hint},
        "settings": {},
        **dict.fromkeys(empty),
    }
