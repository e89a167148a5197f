"""Plans and settings as people and programs read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from music3_cli.cli import console
from music3_cli.jobs.plan import Plan, PlannedSong
from music3_cli.jobs.songs import Song
from music3_cli.song.limits import clock, frames_to_seconds


def show_plan(plan: Plan, device: str, as_json: bool, dry_run: bool) -> None:
    """What will be done: on stderr before a run, on stdout for `--dry-run`, as one record with `--json`."""
    if as_json:
        console.record({"event": "plan", **plan_as_json(plan, device)})
        return
    say = console.data if dry_run else console.talk
    count = len(plan.songs)
    say(f"{count} song{'s' * (count != 1)}, checkpoint {plan.checkpoint.name}, device {device}")
    if plan.checkpoint.is_demo:
        say("The demo checkpoint has random weights: it makes noise, not music.")
    for song in plan.songs:
        request = song.request
        say(
            f"  {request.id}: seed {request.seed}, {len(request.prompt.ids)} prompt tokens, "
            f"at most {clock(frames_to_seconds(request.max_frames))}, {request.steps} steps "
            f"-> {song.path} ({song.action}: {song.reason})"
        )
    if dry_run:
        for line in (*(f"note: {note}" for note in plan.notes), *(f"warning: {text}" for text in plan.warnings)):
            say(line)


def plan_as_json(plan: Plan, device: str) -> dict[str, Any]:
    return {
        "checkpoint": plan.checkpoint.name,
        "checkpoint_digest": plan.checkpoint.digest,
        "demo": plan.checkpoint.is_demo,
        "device": device,
        "songs": [song_facts(song) for song in plan.songs],
        "notes": list(plan.notes),
        "warnings": list(plan.warnings),
    }


def show_song_settings(songs: Sequence[Song], as_json: bool) -> None:
    """Every setting of every song with its value and source."""
    if as_json:
        console.document(
            {
                song.id: {name: {"value": item.value, "source": item.source} for name, item in song.settings.items()}
                for song in songs
            }
        )
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    for song in songs:
        table = Table("setting", "value", "source", box=box.SIMPLE, title=song.id, title_justify="left")
        for name, item in song.settings.items():
            table.add_row(name, Text(_setting_text(name, item.value)), Text(item.source))
        console.show(table)


def _setting_text(name: str, value: object) -> str:
    if name == "max_duration":
        return "the model's limit" if value is None else clock(frames_to_seconds(int(str(value))))
    if name == "caption":
        text = " ".join(str(value).split())
        return text if len(text) <= 60 else f"{text[:57]}..."
    return "-" if value is None else str(value)


def song_facts(song: PlannedSong) -> dict[str, object]:
    """A planned song in a plan's JSON."""
    request = song.request
    return {
        "song": request.id,
        "path": str(song.path),
        "action": song.action,
        "reason": song.reason,
        "seed": request.seed,
        "take": request.take,
        "prompt_tokens": len(request.prompt.ids),
        "ceiling_frames": request.max_frames,
        "steps": request.steps,
    }
