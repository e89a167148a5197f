"""Carries a plan out on this machine: pipeline events in, finished files with sidecars and events out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from music3_cli import AUDIO_REVISION
from music3_cli.errors import OutputError
from music3_cli.events import Event, Note, RunFinished, SongFailed, SongFinished, SongKept, Warned
from music3_cli.jobs.plan import Plan
from music3_cli.jobs.sidecar import versions, write_sidecar

if TYPE_CHECKING:
    from music3_cli.pipeline import Pipeline, SongRendered


def run_plan(plan: Plan, device: str) -> Iterator[Event]:
    """Render what the plan says.

    Args:
        device: as `--device` takes it.

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
            _check_writable(folder)
        from music3_cli.devices import resolve_device
        from music3_cli.pipeline import Pipeline, RenderJob, SongRendered

        requests = [song.request for song in plan.to_render]
        pipeline = Pipeline(plan.checkpoint, resolve_device(device), requests[0].talker_dtype)
        yield from pipeline.load(max(len(request.prompt.ids) + request.max_frames + 1 for request in requests))
        for event in pipeline.render([RenderJob(song.request, song.path) for song in plan.to_render]):
            if isinstance(event, SongRendered):
                event = _commit(event, pipeline)
            if isinstance(event, SongFinished):
                rendered, audio_seconds = rendered + 1, audio_seconds + event.audio_seconds
            if isinstance(event, SongFailed):
                failed += 1
            yield event
        peak = pipeline.peak_device_bytes()
    seconds = time.perf_counter() - started
    yield RunFinished(rendered, len(kept), failed, audio_seconds, seconds, 3 if failed else 0, peak)


def _check_writable(folder: Path) -> None:
    """Make the folder and a file in it: what permissions say is not all that can be wrong, and a song takes long."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, prefix=".music3-"):
            pass
    except OSError as error:
        raise OutputError(
            f"{folder}: not writable ({error.strerror or error})", hint="Choose another -o, or change its permissions."
        ) from None


def _commit(rendered: SongRendered, pipeline: Pipeline) -> SongFinished | SongFailed:
    """Sidecar first, then the audio: an audio file in place always has its sidecar."""
    request, audio = rendered.job.request, rendered.audio
    warnings = []
    if rendered.finish_reason == "ceiling" and not pipeline.checkpoint.is_demo:
        warnings.append("the song reached its ceiling and was cut off; raise --max-duration")
    if pipeline.checkpoint.is_demo:
        warnings.append("a demo checkpoint makes noise, not music")
    timings = {"talker": round(rendered.talker_seconds, 3), "acoustic": round(rendered.acoustic_seconds, 3)}
    seconds = audio.samples / audio.sample_rate
    content: dict[str, Any] = {
        "key": request.key(pipeline.checkpoint.digest),
        "audio_revision": AUDIO_REVISION,
        "song": {
            "id": request.id,
            "title": request.title,
            "artist": request.artist,
            "take": request.take,
            "seed": request.seed,
        },
        "settings": request.audio_settings(),
        "checkpoint": {
            "name": pipeline.checkpoint.name,
            "digest": pipeline.checkpoint.digest,
            "demo": pipeline.checkpoint.is_demo,
        },
        "result": {
            "file": rendered.job.path.name,
            "sha256": audio.sha256,
            "frames": rendered.frames,
            "finish_reason": rendered.finish_reason,
            "prompt_tokens": len(request.prompt.ids),
            "sample_rate": audio.sample_rate,
            "samples": audio.samples,
            "seconds": round(seconds, 6),
            "peak": round(audio.peak, 6),
        },
        "warnings": warnings,
        "timings": timings,
        "device": pipeline.device_name,
        "versions": versions(),
    }
    try:
        write_sidecar(rendered.job.path, content)
        rendered.writer.commit()
    except OutputError as error:
        return SongFailed(request.id, error.message, error.hint)
    return SongFinished(
        request.id,
        str(rendered.job.path),
        request.seed,
        request.take,
        rendered.frames,
        seconds,
        rendered.finish_reason,
        timings,
        tuple(warnings),
    )
