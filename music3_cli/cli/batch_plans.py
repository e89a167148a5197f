"""A batch's plan and its outcome as people and programs read them."""

from __future__ import annotations

import json
from shutil import disk_usage
from typing import Any

from music3_cli.cli import console
from music3_cli.cli.plans import song_facts
from music3_cli.jobs.batch.estimate import Estimate, estimate_of
from music3_cli.jobs.batch.plan import BatchPlan
from music3_cli.jobs.batch.record import record_name
from music3_cli.jobs.manifest_songs import Unusable
from music3_cli.jobs.plan import PlannedSong
from music3_cli.song.limits import clock, frames_to_seconds


def show_batch_plan(plan: BatchPlan, device: str, as_json: bool) -> None:
    """For `--dry-run`: every song's action and reason, and what all of them need, on stdout."""
    estimate = estimate_of(plan)
    if as_json:
        console.record({"event": "plan", **_as_json(plan, device, estimate)})
        return
    for song in plan.songs:
        if isinstance(song, Unusable):
            console.data(f"  invalid {song.id}: {'; '.join(error.message for error in song.errors)}")
        else:
            request, waits = song.request, "" if _is_chosen(plan, song) else ", not now"
            ceiling = f"{request.max_frames} frames ({clock(frames_to_seconds(request.max_frames))})"
            console.data(
                f"  {song.action:7} {request.id}: {song.reason}{waits}; seed {request.seed}, "
                f"{len(request.prompt.ids)} prompt tokens, at most {ceiling} -> {song.path}"
            )
    for line in (*(f"note: {note}" for note in plan.notes), *(f"warning: {text}" for text in plan.warnings)):
        console.data(line)
    counts = f"{len(plan.to_render)} to render, {len(plan.kept)} kept"
    counts += f", {len(plan.unusable)} invalid" if plan.unusable else ""
    console.data(f"{plan.title}: {counts}; checkpoint {plan.checkpoint.name}, device {device}, into {plan.folder}/")
    for line in _needs(plan, estimate):
        console.data(line)


def _is_chosen(plan: BatchPlan, song: PlannedSong) -> bool:
    return song.action != "render" or song.request.id in plan.chosen


def _needs(plan: BatchPlan, estimate: Estimate) -> list[str]:
    sound = clock(frames_to_seconds(estimate.frames))
    if estimate.seconds is None:
        time = "time: not known before the first run into this folder"
    else:
        time = f"time: at most {clock(estimate.seconds)}, at the pace of the last run here ({estimate.pace:.2f}x)"
    there = next(folder for folder in (plan.folder, *plan.folder.absolute().parents) if folder.exists())
    free = disk_usage(there).free
    short = " NOT ENOUGH" if free < estimate.disk_bytes else ""
    return [
        f"sound: at most {sound} ({estimate.frames} frames)",
        time,
        f"disk: about {estimate.disk_bytes / 1e9:.2f} GB at most, {free / 1e9:.1f} GB free{short}",
        f"memory: {estimate.weight_bytes / 2**30:.2f} GiB for the weights, {estimate.song_bytes / 2**30:.2f} GiB for "
        "each song that runs",
    ]


def _as_json(plan: BatchPlan, device: str, estimate: Estimate) -> dict[str, Any]:
    def entry(song: PlannedSong | Unusable) -> dict[str, Any]:
        if isinstance(song, Unusable):
            errors = [{"message": error.message, "hint": error.hint} for error in song.errors]
            return {"song": song.id, "action": "skip", "reason": "invalid", "errors": errors}
        facts = song_facts(song)
        return facts if _is_chosen(plan, song) else {**facts, "action": "wait"}

    return {
        "checkpoint": plan.checkpoint.name,
        "checkpoint_digest": plan.checkpoint.digest,
        "demo": plan.checkpoint.is_demo,
        "device": device,
        "folder": str(plan.folder),
        "songs": [entry(song) for song in plan.songs],
        "estimate": estimate.to_json(),
        "notes": list(plan.notes),
        "warnings": list(plan.warnings),
    }


def show_summary(plan: BatchPlan, page: str | None) -> None:
    """The table after a run, on stderr, from the record that the run wrote, and where that and the page are."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    path = plan.folder / record_name(plan.shard)
    record = json.loads(path.read_bytes())
    table = Table("song", "status", "length", "seed", "what", box=box.SIMPLE)
    colours = {"rendered": "green", "failed": "bold red", "skipped": "red", "not_started": "yellow"}
    for song in record["songs"]:
        error = song["error"]["message"] if song["error"] else ""
        warnings = len(song["warnings"])
        told = f"{warnings} warning{'s' * (warnings != 1)}" if warnings > 0 and not error else error
        table.add_row(
            Text(song["id"]),
            Text(song["status"].replace("_", " "), style=colours.get(song["status"], "")),
            clock(song["seconds"]) if song["seconds"] is not None else "",
            str(song["seed"] if song["seed"] is not None else ""),
            Text(told),
        )
    console.show_talk(table)
    console.talk(f"record: {path}")
    if page:
        console.talk(f"to listen and choose: {page}")
