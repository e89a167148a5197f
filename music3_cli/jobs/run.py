"""Carries a plan out on this machine: pipeline events in, finished files with sidecars and events out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from music3_cli import AUDIO_REVISION
from music3_cli.audio.checks import ending_warnings
from music3_cli.audio.resample import torchaudio_resample
from music3_cli.errors import OutputError
from music3_cli.events import Event, Note, RunFinished, SongFailed, SongFinished, SongKept, Warned
from music3_cli.files import file_sha256
from music3_cli.jobs.labels import repeat_command, tags_of
from music3_cli.jobs.machine import RunsOn, limits_of
from music3_cli.jobs.plan import Plan
from music3_cli.jobs.sidecar import versions, write_sidecar
from music3_cli.song.codes import codes_path, write_codes
from music3_cli.song.delivery import NATIVE_RATE

if TYPE_CHECKING:
    from music3_cli.pipeline import Pipeline, SongRendered


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
            _check_writable(folder)
        from music3_cli.pipeline import RenderJob, SongRendered

        requests = [song.request for song in plan.to_render]
        if any(request.delivery.sample_rate != NATIVE_RATE for request in requests):
            torchaudio_resample()  # asked for before the weights are read
        pipeline = on.pipeline(plan.checkpoint, requests[0].talker_dtype, requests[0].talker_weights)
        yield from pipeline.load(limits_of(requests))
        for request in requests:
            if request.exact and request.codes and request.codes.record.get("device") != pipeline.device_name:
                made_on = request.codes.record.get("device")
                yield Note(
                    f"{request.id}: --exact gives equal samples on {made_on} only; this is {pipeline.device_name}"
                )
        longest_first = sorted(plan.to_render, key=lambda song: -song.request.max_frames)
        jobs = (RenderJob(song.request, song.path, tags_of(song.request, plan.checkpoint)) for song in longest_first)
        for event in pipeline.render(jobs):
            if isinstance(event, SongRendered):
                event = _commit(event, pipeline, plan.keep_codes)
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


def _commit(rendered: SongRendered, pipeline: Pipeline, keep_codes: bool) -> SongFinished | SongFailed:
    """Codes and sidecar first, then the audio: an audio file in place always has what belongs to it."""
    request, path, audio = rendered.job.request, rendered.job.path, rendered.audio
    content = _record(rendered, pipeline)
    try:
        if keep_codes:
            record = {name: content[name] for name in ("song", "checkpoint", "device", "versions")}
            write_codes(codes_path(path), rendered.codes, {**record, "settings": request.model_settings()})
            content["result"]["codes"] = {"file": codes_path(path).name, "sha256": file_sha256(codes_path(path))}
        write_sidecar(path, content)
        rendered.writer.commit()
    except OutputError as error:
        return SongFailed(request.id, error.message, error.hint)
    return SongFinished(
        song=request.id,
        path=str(path),
        seed=request.seed,
        take=request.take,
        frames=rendered.codes.frames,
        audio_seconds=audio.samples / audio.sample_rate,
        finish_reason=rendered.codes.finish_reason,
        timings=content["timings"],
        warnings=tuple(content["warnings"]),
        levels=content["levels"],
    )


def _record(rendered: SongRendered, pipeline: Pipeline) -> dict[str, Any]:
    """The sidecar's content."""
    request, audio, codes = rendered.job.request, rendered.audio, rendered.codes
    seconds = audio.samples / audio.sample_rate
    return {
        "key": request.key(pipeline.checkpoint.digest),
        "audio_revision": AUDIO_REVISION,
        "song": {
            "id": request.id,
            "title": request.title,
            "artist": request.artist,
            "album": request.album,
            "track": request.track,
            "take": request.take,
            "seed": request.seed,
        },
        "settings": request.audio_settings(),
        "repeat": repeat_command(request, pipeline.checkpoint),
        "checkpoint": {
            "name": pipeline.checkpoint.name,
            "digest": pipeline.checkpoint.digest,
            "demo": pipeline.checkpoint.is_demo,
        },
        "result": {
            "file": rendered.job.path.name,
            "sha256": audio.sha256,
            "frames": codes.frames,
            "finish_reason": codes.finish_reason,
            "prompt_tokens": len(request.prompt.ids),
            "sample_rate": audio.sample_rate,
            "samples": audio.samples,
            "seconds": round(seconds, 6),
            "peak": round(audio.peak, 6),
            "seams": list(rendered.seams),
        },
        "levels": audio.to_json(),
        "acoustic": {
            "arithmetic": rendered.arithmetic,
            "fast": request.fast,
            "windows": len(rendered.seams) + 1,
            "windows_redone": dict(rendered.redone),
        },
        "checks": audio.faults.to_json(),
        "warnings": _warnings(rendered, pipeline.checkpoint.is_demo),
        "timings": {"talker": round(rendered.talker_seconds, 3), "acoustic": round(rendered.acoustic_seconds, 3)},
        "device": pipeline.device_name,
        "versions": versions(),
    }


def _warnings(rendered: SongRendered, is_demo: bool) -> list[str]:
    windows = len(rendered.seams) + 1
    about = [
        f"{count} of {windows} windows had values too large for the precision and were solved again with {precision}"
        for precision, count in rendered.redone.items()
    ]
    about += rendered.audio.warnings()
    if is_demo:  # whose songs never end by themselves
        return ["a demo checkpoint makes noise, not music", *about]
    ending = ending_warnings(rendered.codes.finish_reason, rendered.audio.faults.seconds, rendered.job.request.lyrics)
    return [*ending, *about]
