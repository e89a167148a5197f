"""Songs from start to end against the clock: what each stage did when, and how both together compare with real time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from music3_cli.checkpoint.inventory import Checkpoint
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
from music3_cli.placement import Placement
from music3_cli.song.request import SongRequest

if TYPE_CHECKING:
    from music3_cli.jobs.roofline import Roofline

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
        talker_limit, acoustic_limit: the least seconds, see `Roofline`.
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
    from music3_cli.jobs.roofline import Roofline
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
        roofline = Roofline(checkpoint, requests[0], *on.devices())
        pipeline = on.pipeline(checkpoint, requests[0].talker_dtype, requests[0].talker_weights)
        load_seconds = 0.0
        for event in pipeline.load(limits_of(requests)):
            if isinstance(event, LoadFinished):
                load_seconds = event.seconds
            if not isinstance(event, PlacementChosen):
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
        peak = pipeline.peak_device_bytes()
        return line.timing(requests[0], roofline, pipeline.placement, load_seconds, warm_up, peak)


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
        self,
        request: SongRequest,
        roofline: Roofline,
        placement: Placement,
        load_seconds: float,
        warm_up: float,
        peak: int,
    ) -> SongTiming:
        return SongTiming(
            placement.text,
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
            roofline.talker(self._frames, placement.songs),
            roofline.acoustic(self._frames),
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
