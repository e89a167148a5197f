"""Carries the plan of `render` out on this machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from music3_cli.errors import OutputError
from music3_cli.events import Event, Note, RunFinished, SongFailed, SongFinished, SongKept, Warned
from music3_cli.files import PARTIAL_PREFIX
from music3_cli.jobs.machine import RunsOn
from music3_cli.jobs.plan import Plan, longest_first


def run_plan(plan: Plan, on: RunsOn) -> Iterator[Event]:
    """Render what the plan says.

    Args:
        on: the devices, and how they are used.

    Yields:
        events, the last one a `RunFinished`.

    Raises:
        OutputError, DeviceError, CheckpointError: nothing can be rendered.
    """
    started = time.perf_counter()
    for note in plan.notes:
        yield Note(note)
    for warning in plan.warnings:
        yield Warned(warning)
    kept = [song for song in plan.songs if song.action == "keep"]
    for song in kept:
        yield SongKept(song.request.id, str(song.path))
    rendered, failed, audio_seconds, peak = 0, 0, 0.0, 0
    if plan.to_render:
        for folder in sorted({song.path.parent for song in plan.to_render}):
            check_writable_folder(folder)
        from music3_cli.jobs.engine import EngineSpec, SongEngine

        engine = SongEngine(EngineSpec.for_songs(plan.to_render, plan.checkpoint, on))
        yield from engine.load()
        yield from engine.exactness_notes(plan.to_render)
        # Slots that are freed early are taken by shorter songs, and no long one runs alone at the end.
        for event in engine.render(longest_first(plan.to_render)):
            if isinstance(event, SongFinished):
                rendered, audio_seconds = rendered + 1, audio_seconds + event.audio_seconds
            if isinstance(event, SongFailed):
                failed += 1
            yield event
        peak = engine.peak_device_bytes()
    seconds = time.perf_counter() - started
    yield RunFinished(rendered, len(kept), failed, audio_seconds, seconds, 3 if failed else 0, peak)


def check_writable_folder(folder: Path) -> None:
    """Make the folder and a file in it: what permissions say is not all that can be wrong, and a song takes long."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, prefix=PARTIAL_PREFIX):
            pass
    except OSError as error:
        raise OutputError(
            f"{folder}: not writable ({error.strerror or error})", hint="Choose another -o, or change its permissions."
        ) from None
