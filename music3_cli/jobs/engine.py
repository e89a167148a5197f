"""Renders songs on one device into finished files with sidecars: what every way of running a plan has in common."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from music3_cli import AUDIO_REVISION
from music3_cli.audio.checks import ending_warnings
from music3_cli.audio.resample import torchaudio_resample
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.errors import OutputError
from music3_cli.events import Event, Note, SongFailed, SongFinished
from music3_cli.files import file_sha256
from music3_cli.jobs.labels import repeat_command, tags_of
from music3_cli.jobs.machine import RunsOn, limits_of
from music3_cli.jobs.plan import PlannedSong
from music3_cli.jobs.sidecar import has_codes, versions, write_sidecar
from music3_cli.placement import RunLimits
from music3_cli.song.codes import codes_path, write_codes
from music3_cli.song.delivery import NATIVE_RATE

if TYPE_CHECKING:
    from music3_cli.pipeline import Pipeline, SongRendered


@dataclass(frozen=True)
class EngineSpec:
    """What an engine is made from, on this machine or another one.

    Attributes:
        on: its devices.
        talker_dtype: `bf16` or `fp32`.
        talker_weights: `full` or `int8`.
        limits: what the songs need at most.
        resampled: whether any song is not at the native rate.
        threads: of a CPU, which results may depend on; 0 leaves them alone.
    """

    checkpoint: Checkpoint
    on: RunsOn
    talker_dtype: str
    talker_weights: str
    limits: RunLimits
    resampled: bool
    threads: int = 0

    @classmethod
    def for_songs(cls, songs: Iterable[PlannedSong], checkpoint: Checkpoint, on: RunsOn) -> EngineSpec:
        requests = [song.request for song in songs]
        return cls(
            checkpoint,
            on,
            requests[0].talker_dtype,
            requests[0].talker_weights,
            limits_of(requests),
            any(request.delivery.sample_rate != NATIVE_RATE for request in requests),
        )


class SongEngine:
    """Both stages of a checkpoint.

    Raises:
        DeviceError, CheckpointError: they cannot be had.
    """

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        if spec.resampled:
            torchaudio_resample()  # asked for before the weights are read
        self.pipeline = spec.on.pipeline(spec.checkpoint, spec.talker_dtype, spec.talker_weights)

    def load(self) -> Iterator[Event]:
        if self.spec.threads:
            import torch

            torch.set_num_threads(self.spec.threads)
        yield from self.pipeline.load(self.spec.limits)

    def render(self, songs: Iterable[PlannedSong]) -> Generator[Event, None, None]:
        """Render songs, asking for the next one when there is room for it.

        Yields:
            progress, and a `SongFinished` or `SongFailed` for every song.

        Raises:
            DeviceError: out of memory; songs that were not finished have left nothing behind.
        """
        from music3_cli.pipeline import RenderJob, SongRendered

        known: dict[str, PlannedSong] = {}

        def jobs() -> Iterator[RenderJob]:
            for song in songs:
                known[song.request.id] = song
                yield RenderJob(song.request, song.path, tags_of(song.request, self.spec.checkpoint))

        for event in self.pipeline.render(jobs()):
            if isinstance(event, SongRendered):
                event = _commit(event, self.pipeline, known[event.job.request.id].keep_codes)
            yield event

    def exactness_notes(self, songs: Iterable[PlannedSong]) -> Iterator[Event]:
        """Where known codes go through another device than the one that drew them."""
        name = self.device_name
        for request in (song.request for song in songs):
            if request.exact and request.codes and request.codes.record.get("device") != name:
                made_on = request.codes.record.get("device")
                yield Note(f"{request.id}: --exact gives equal samples on {made_on} only; this is {name}")

    @property
    def device_name(self) -> str:
        return self.pipeline.device_name

    def peak_device_bytes(self) -> int:
        return self.pipeline.peak_device_bytes()


def _commit(rendered: SongRendered, pipeline: Pipeline, keep_codes: bool) -> SongFinished | SongFailed:
    """Codes and sidecar first, then the audio: an audio file in place always has what belongs to it.

    Codes that were kept beside an earlier song of this name are renewed, too.
    """
    request, path, audio = rendered.job.request, rendered.job.path, rendered.audio
    content = _record(rendered, pipeline)
    try:
        if keep_codes or has_codes(path):
            record = {name: content[name] for name in ("song", "checkpoint", "device", "versions")}
            write_codes(codes_path(path), rendered.codes, {**record, "settings": request.model_settings()})
            content["result"]["codes"] = {"file": codes_path(path).name, "sha256": file_sha256(codes_path(path))}
        write_sidecar(path, content)
        rendered.writer.commit()
    except OutputError as error:
        return SongFailed(request.id, error.message, error.hint, True)
    return SongFinished(
        song=request.id,
        path=str(path),
        seed=request.seed,
        take=request.take,
        frames=rendered.codes.frames,
        audio_seconds=audio.samples / audio.sample_rate,
        finish_reason=rendered.codes.finish_reason,
        timings={"talker": round(rendered.talker_seconds, 3), "acoustic": round(rendered.acoustic_seconds, 3)},
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
