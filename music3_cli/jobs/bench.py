"""Songs from start to end against the clock: what each stage did when, and how both together compare with real time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from music3_cli.acoustic.windows import WINDOW_FRAMES, plan_windows
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.memory import cache_bytes, frame_bytes
from music3_cli.errors import Music3Error, OutputError
from music3_cli.events import (
    Event,
    LoadFinished,
    Note,
    PlacementChosen,
    SongFailed,
    TalkerFinished,
    TalkerStarted,
    Warned,
    WindowFinished,
)
from music3_cli.jobs.labels import tags_of
from music3_cli.jobs.machine import RunsOn, limits_of
from music3_cli.jobs.plan import make_plan
from music3_cli.jobs.songs import read_songs
from music3_cli.song.request import SongRequest

WARM_UP_FRAMES = 301
"""Three windows: every kind of window is met once."""


@dataclass(frozen=True)
class Span:
    """What a stage did for a song, in seconds since the first song began.

    Attributes:
        stage: `talker` (a song's time in its slot) or `acoustic` (one window).
    """

    stage: str
    song: str
    start: float
    stop: float


@dataclass(frozen=True)
class SongTiming:
    """One measurement of whole songs with the weights loaded.

    Attributes:
        placement: in words.
        talker_dtype, precision, steps: of the songs.
        load_seconds: reading the weights.
        warm_up_seconds: a short song before the clock starts.
        seconds: from the first prefill to the last file.
        audio_seconds: of all songs together.
        talker_seconds, acoustic_seconds: while at least one song was in that stage.
        first_file_seconds: until the first file was whole.
        talker_limit: seconds for reading the weights, keys and values once at the device's bandwidth; 0 on a CPU.
        acoustic_limit: seconds for the steps' arithmetic at the rate of the transformer's largest product.
        frames: of all songs.
        windows: solved.
        peak_bytes: device memory; 0 on a CPU.
        finish_reasons: of the songs.
        spans: the timeline.
    """

    placement: str
    talker_dtype: str
    precision: str
    steps: int
    load_seconds: float
    warm_up_seconds: float
    seconds: float
    audio_seconds: float
    talker_seconds: float
    acoustic_seconds: float
    first_file_seconds: float
    talker_limit: float
    acoustic_limit: float
    frames: int
    windows: int
    peak_bytes: int
    finish_reasons: tuple[str, ...]
    spans: tuple[Span, ...]

    @property
    def overlap_seconds(self) -> float:
        """While both stages were at work."""
        return self.talker_seconds + self.acoustic_seconds - covered(self.spans)

    @property
    def real_time(self) -> float:
        """Seconds of sound a second."""
        return self.audio_seconds / self.seconds


def time_songs(
    checkpoint: Checkpoint,
    on: RunsOn,
    lyrics: str,
    seconds: float,
    songs: int,
    settings: dict[str, object],
    watch: Callable[[Event], None],
) -> SongTiming:
    """Render `songs` songs with a ceiling of `seconds` into a folder that is removed again.

    A song that the model ends earlier is shorter; random weights as a rule go on to the ceiling.

    Args:
        settings: raw values by setting name, as flags give them.
        watch: shown the events of loading and of the songs that are timed.

    Raises:
        Music3Error: a song failed, or what loading raises.
    """
    from music3_cli.pipeline import RenderJob, SongRendered

    flags = {**settings, "max_duration": seconds, "takes": songs}
    with tempfile.TemporaryDirectory(prefix="music3-bench-") as folder:
        planned = make_plan(
            read_songs([lyrics], flags, None),
            checkpoint,
            on.default_dtype,
            f"{folder}/",
            "overwrite",
            default_weights=on.default_weights,
        ).songs
        requests = [song.request for song in planned]
        limits = _Limits(checkpoint, requests[0], on)
        pipeline = on.pipeline(checkpoint, requests[0].talker_dtype, requests[0].talker_weights)
        placement, load_seconds = "", 0.0
        for event in pipeline.load(limits_of(requests)):
            if isinstance(event, PlacementChosen):
                placement = event.message
                limits.at_once = pipeline.placement.songs
                continue
            if isinstance(event, LoadFinished):
                load_seconds = event.seconds
            watch(event)
        jobs = [RenderJob(song.request, song.path, tags_of(song.request, checkpoint)) for song in planned]
        started = time.perf_counter()
        short = replace(jobs[0].request, max_frames=min(WARM_UP_FRAMES, jobs[0].request.max_frames))
        watch(Note("warming up"))
        for _ in pipeline.render([replace(jobs[0], request=short)]):
            pass
        watch(Note(f"timing {songs} song{'s' * (songs != 1)}"))
        warm_up = time.perf_counter() - started
        line = _Timeline()
        for event in pipeline.render(jobs):
            line.take(event)
            if isinstance(event, SongFailed):
                raise Music3Error(f"{event.song}: {event.message}", hint=event.hint)
            if isinstance(event, Warned) and "out of memory" in event.message:
                raise Music3Error(event.message, hint="Time fewer or shorter songs.")
            if isinstance(event, SongRendered):
                line.whole(event.job.request.id, event.audio.samples / event.audio.sample_rate)
                event.writer.commit()
                continue
            watch(event)
        return line.timing(requests[0], limits, placement, load_seconds, warm_up, pipeline.peak_device_bytes())


class _Limits:
    """What the device could do at best, measured before the weights come.

    Attributes:
        at_once: songs that share a step of the talker.
    """

    at_once = 1

    def __init__(self, checkpoint: Checkpoint, request: SongRequest, on: RunsOn) -> None:
        import torch

        from music3_cli.acoustic.bench import measure_products
        from music3_cli.devices import DTYPES
        from music3_cli.stages.weights import give_back
        from music3_cli.talker.bench import read_bandwidth

        self._architecture, self._request = checkpoint.architecture, request
        self._itemsize = DTYPES[request.talker_dtype].itemsize
        talker, self._acoustic_devices = on.devices()
        acoustic = self._acoustic_devices[0]
        latents = self._architecture.condition.latents(WINDOW_FRAMES)
        with torch.inference_mode():
            self._bandwidth = read_bandwidth(talker) if talker.type == "cuda" else 0.0
            products = measure_products(self._architecture.transformer, latents, [request.precision], acoustic)
            self._rate = next(product.tflops for product in products if product.name == "ff_in") * 1e12
        for device in (talker, acoustic):
            give_back(device)

    def talker(self, songs: Sequence[int]) -> float:
        """Seconds for songs of so many frames: every step is shared by as many songs as possible."""
        if not self._bandwidth:
            return 0.0
        backbone, depth, prompt = self._architecture.backbone, self._architecture.depth, len(self._request.prompt.ids)
        weights = frame_bytes(backbone, depth, self._itemsize, self._request.talker_weights == "int8")
        steps = sum(songs) / self.at_once
        context = sum(frames * (prompt + frames / 2) for frames in songs)
        return (steps * weights + context * cache_bytes(backbone, 1, self._itemsize)) / self._bandwidth

    def acoustic(self, songs: Sequence[int]) -> float:
        """Seconds for the windows of songs of so many frames; each song has one of the acoustic devices."""
        from music3_cli.acoustic.bench import step_flops

        windows = [window for frames in songs for window in plan_windows(frames, self._architecture.condition)]
        flops = sum(step_flops(self._architecture.transformer, window.latents) for window in windows)
        return self._request.steps * flops / self._rate / min(len(songs), len(self._acoustic_devices))


class _Timeline:
    """Events to spans."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._spans: list[Span] = []
        self._since: dict[str, float] = {}
        self._files: list[float] = []
        self._audio = 0.0
        self._frames: list[int] = []
        self._reasons: list[str] = []

    def take(self, event: object) -> None:
        now = time.perf_counter() - self._started
        match event:
            case TalkerStarted():
                self._since[event.song] = now
            case TalkerFinished():
                self._spans.append(Span("talker", event.song, round(self._since.pop(event.song), 4), round(now, 4)))
                self._frames.append(event.frames)
                self._reasons.append(event.finish_reason)
            case WindowFinished():
                self._spans.append(Span("acoustic", event.song, round(now - event.seconds, 4), round(now, 4)))
            case _:
                pass

    def whole(self, song: str, audio_seconds: float) -> None:
        self._files.append(time.perf_counter() - self._started)
        self._audio += audio_seconds

    def timing(
        self, request: SongRequest, limits: _Limits, placement: str, load_seconds: float, warm_up: float, peak: int
    ) -> SongTiming:
        return SongTiming(
            placement,
            request.talker_dtype,
            request.precision,
            request.steps,
            load_seconds,
            warm_up,
            max(self._files),
            self._audio,
            covered([span for span in self._spans if span.stage == "talker"]),
            covered([span for span in self._spans if span.stage == "acoustic"]),
            min(self._files),
            limits.talker(self._frames),
            limits.acoustic(self._frames),
            sum(self._frames),
            sum(span.stage == "acoustic" for span in self._spans),
            peak,
            tuple(self._reasons),
            tuple(self._spans),
        )


def covered(spans: Sequence[Span]) -> float:
    """Seconds in which at least one of the spans is."""
    total, until = 0.0, 0.0
    for span in sorted(spans, key=lambda span: span.start):
        total += max(0.0, span.stop - max(until, span.start))
        until = max(until, span.stop)
    return total


def draw_timeline(timing: SongTiming, path: Path, title: str) -> None:
    """Both stages over time, a row a song and stage.

    Raises:
        OutputError: it cannot be written.
    """
    from matplotlib.figure import Figure

    songs = list(dict.fromkeys(span.song for span in timing.spans))
    rows = {(stage, song): 2 * place + (stage == "acoustic") for place, song in enumerate(songs) for stage in _COLOURS}
    figure = Figure(figsize=(11, 1.2 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for stage, colour in _COLOURS.items():
        own = [span for span in timing.spans if span.stage == stage]
        axes.barh(
            [rows[stage, span.song] for span in own],
            [span.stop - span.start for span in own],
            left=[span.start for span in own],
            color=colour,
            edgecolor="white",
            linewidth=0.4,
            label="talker (a song)" if stage == "talker" else "acoustic stage (a window)",
        )
    axes.set_yticks(list(rows.values()), [f"{song} {stage}" for stage, song in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(f"seconds; {timing.audio_seconds:.0f} s of sound in {timing.seconds:.1f} s")
    axes.set_title(title, fontsize=9)
    figure.legend(loc="outside lower right", fontsize=7, ncols=2)
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise OutputError(f"--timeline {path}: cannot be written ({error.strerror or error})") from None


_COLOURS = {"talker": "#2f6f9f", "acoustic": "#a2583b"}
