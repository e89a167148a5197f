"""Events to what people see: bars on a terminal, heartbeat lines in a pipe, JSON lines with `--json`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from music3_cli.cli import console
from music3_cli.events import (
    AcousticProgress,
    AcousticStarted,
    BatchStarted,
    Event,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    Note,
    PlacementChosen,
    RunFinished,
    SongFailed,
    SongFinished,
    SongKept,
    SongRetried,
    SongSkipped,
    Stopping,
    TalkerFinished,
    TalkerProgress,
    TalkerStarted,
    Warned,
    WorkerLost,
    WorkerReady,
)
from music3_cli.song.limits import FRAME_RATE, clock, frames_to_seconds

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

HEARTBEAT_SECONDS = 10.0
JSON_PROGRESS_SECONDS = 1.0
NARROW = 90
"""Columns of a terminal on which a bar leaves its room to the text."""


class View(ABC):
    """Takes the events of a run, in order."""

    def __enter__(self) -> View:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @abstractmethod
    def take(self, event: Event) -> None:
        """One event."""


class Throttle:
    """Lets something through at most every `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class Rate:
    """Frames a second of one song since its first progress."""

    def __init__(self) -> None:
        self._started: tuple[float, int] | None = None

    def text(self, done: int, ceiling: int) -> str:
        """`at most 0:40 left, 61.0 frames/s, 2.4x real time`; empty before the second measurement."""
        now = time.monotonic()
        if self._started is None:
            self._started = (now, done)
            return ""
        since, first = self._started
        if now - since < 0.2 or done <= first:
            return ""
        speed = (done - first) / (now - since)
        left = clock((ceiling - done) / speed)
        return f"at most {left} left, {speed:.1f} frames/s, {speed / FRAME_RATE:.1f}x real time"


class JsonView(View):
    """One JSON record a line on stdout; progress at most once a second."""

    def __init__(self) -> None:
        self._due = Throttle(JSON_PROGRESS_SECONDS)

    def take(self, event: Event) -> None:
        if isinstance(event, LoadProgress | TalkerProgress | AcousticProgress) and not self._due():
            return
        console.record(event.to_json())


class Lines(View):
    """Plain lines on stderr, finished files on stdout.

    Args:
        heartbeat: seconds between progress lines, None for none.
        quiet: only warnings, failures and the files.
    """

    def __init__(self, heartbeat: float | None, quiet: bool = False) -> None:
        self._due = Throttle(heartbeat) if heartbeat else None
        self._quiet = quiet
        self._rates: dict[str, Rate] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, SongFinished | SongKept):
            console.data(event.path)
        if isinstance(event, Warned | SongFailed) or not self._quiet:
            for line in describe(event):
                self._say(line)
        if self._due is None or self._quiet:
            return
        if isinstance(event, TalkerProgress):
            rate = self._rates.setdefault(event.song, Rate())
            text = rate.text(event.frames, event.ceiling_frames)
            if text and self._due():
                self._say(f"{event.song}: talker {event.frames} of at most {event.ceiling_frames} frames, {text}")
        if isinstance(event, AcousticProgress) and self._due():
            self._say(f"{event.song}: window {event.window + 1} of {event.windows}, step {event.step} of {event.steps}")

    def _say(self, line: str) -> None:
        console.talk(line)


class LiveView(View):
    """Bars that move under the lines that stay, while the view is entered."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        terminal = console.stderr_console()
        self._progress: Progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24 if terminal.width >= NARROW else 6),
            TextColumn("{task.fields[text]}", markup=False),  # its end is cut where there is no room
            console=terminal,
            transient=True,
        )

    def __enter__(self) -> LiveView:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def _say(self, event: Event, lines: Iterable[str]) -> None:
        """The lines that stay; where stdout is no terminal, finished files go there."""
        if isinstance(event, SongFinished | SongKept) and not console.on_terminal():
            console.data(event.path)  # on a terminal a line says it
        for line in lines:
            self._progress.console.print(line)


class Bars(LiveView):
    """Two bars for each song: the talker's frames and the acoustic stage's steps."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[tuple[str, str], TaskID] = {}
        self._rates: dict[str, Rate] = {}
        self._acoustic_since: dict[str, float] = {}

    def take(self, event: Event) -> None:
        self._say(event, describe(event))
        match event:
            case LoadStarted():
                self._bar("load", "", "loading", event.total_bytes)
            case LoadProgress():
                self._move(
                    "load", "", event.done_bytes, f"{event.done_bytes / 1e9:.1f} of {event.total_bytes / 1e9:.1f} GB"
                )
            case LoadFinished():
                self._remove("load", "")
            case TalkerStarted():
                self._bar("talker", event.song, f"talker {event.song}", event.ceiling_frames)
            case TalkerProgress():
                rate = self._rates.setdefault(event.song, Rate()).text(event.frames, event.ceiling_frames)
                self._move("talker", event.song, event.frames, f"{rate}, {event.frames} frames" if rate else "")
            case TalkerFinished():
                self._remove("talker", event.song)
            case AcousticStarted():
                self._acoustic_since[event.song] = time.monotonic()
                self._bar("acoustic", event.song, f"acoustic {event.song}", event.windows * event.steps)
            case AcousticProgress():
                done, total = event.window * event.steps + event.step, event.windows * event.steps
                left = clock((time.monotonic() - self._acoustic_since[event.song]) * (total - done) / done)
                text = f"{left} left, window {event.window + 1}/{event.windows}, step {event.step}/{event.steps}"
                self._move("acoustic", event.song, done, text)
                self._progress.update(self._tasks["acoustic", event.song], total=total)
            case SongFinished() | SongFailed():
                self._remove("talker", event.song)
                self._remove("acoustic", event.song)
            case _:
                pass

    def _bar(self, stage: str, song: str, title: str, total: int) -> None:
        self._remove(stage, song)  # a song may be started again
        self._tasks[stage, song] = self._progress.add_task(title, total=total, text="")

    def _move(self, stage: str, song: str, done: int, text: str) -> None:
        if text:
            self._progress.update(self._tasks[stage, song], completed=done, text=text)
        else:
            self._progress.update(self._tasks[stage, song], completed=done)

    def _remove(self, stage: str, song: str) -> None:
        task = self._tasks.pop((stage, song), None)
        if task is not None:
            self._progress.remove_task(task)


def make_view(
    *,
    as_json: bool,
    quiet: bool,
    no_progress: bool,
    lines: Callable[[float | None, bool], View] = Lines,
    live: Callable[[], View] = Bars,
) -> View:
    """The view that fits flags and terminal.

    Args:
        lines: plain lines, from the heartbeat's seconds and whether to be quiet.
        live: for a terminal.
    """
    if as_json:
        return JsonView()
    terminal = console.stderr_console()
    if quiet or no_progress:
        return lines(None, quiet)
    return live() if terminal.is_terminal and not terminal.is_dumb_terminal else lines(HEARTBEAT_SECONDS, False)


def describe(event: Event) -> list[str]:
    """The lines that stay on the screen."""
    match event:
        case Note():
            return [f"note: {event.message}"]
        case Warned():
            return [f"warning: {event.message}"]
        case PlacementChosen():
            return [f"placement: {event.message}"]
        case LoadFinished():
            return [f"weights loaded in {event.seconds:.1f} s"]
        case TalkerFinished():
            speed = event.frames / max(event.seconds, 1e-9)
            length = clock(frames_to_seconds(event.frames))
            return [
                f"{event.song}: {event.frames} frames ({length}), "
                f"{'ended by itself' if event.finish_reason == 'end' else 'reached its ceiling'}, "
                f"{event.seconds:.1f} s, {speed:.1f} frames/s"
            ]
        case SongKept():
            return [f"{event.song}: kept {event.path} (finished already)"]
        case SongFinished():
            work = sum(event.timings.values())
            pace = f", {event.audio_seconds / work:.1f}x real time" if work else ""
            return [
                f"{event.song}: {event.path}  {clock(event.audio_seconds)}, seed {event.seed}, "
                f"talker {event.timings['talker']:.1f} s, acoustic {event.timings['acoustic']:.1f} s{pace}",
                *_levels_line(event.levels),
                *(f"  warning: {warning}" for warning in event.warnings),
            ]
        case SongFailed():
            return [f"{event.song}: FAILED: {event.message}", *([f"  {event.hint}"] if event.hint else [])]
        case SongRetried():
            return [f"{event.song}: {event.message}; try {event.attempt} follows"]
        case SongSkipped():
            return [f"{event.song}: SKIPPED: {event.message}"]
        case BatchStarted():
            parts = [f"{event.songs} to render"]
            parts += [f"{event.kept} kept"] if event.kept else []
            parts += [f"{event.skipped} skipped"] if event.skipped else []
            return [f"batch into {event.folder}/: {', '.join(parts)}"]
        case WorkerReady():
            return [f"worker {event.worker} is ready: {event.device} on {event.host}, process {event.pid}"]
        case WorkerLost():
            return [f"worker {event.worker} is lost: {event.message}"]
        case Stopping():
            does = "finished" if event.mode == "finish" else "dropped"
            return [f"stopping: songs that run are {does}; once more ends at once"]
        case RunFinished():
            parts = [f"{event.rendered} rendered"]
            parts += [f"{event.kept} kept"] if event.kept else []
            parts += [f"{event.failed} failed"] if event.failed else []
            sound = f", {clock(event.audio_seconds)} of sound" if event.audio_seconds else ""
            peak = f", peak {event.peak_device_bytes / 2**30:.1f} GiB on the device" if event.peak_device_bytes else ""
            return [f"{', '.join(parts)}{sound} in {event.seconds:.1f} s{peak}"]
        case _:
            return []


def _levels_line(levels: Mapping[str, object]) -> list[str]:
    """`  -14.2 LUFS, true peak -1.0 dBTP, gain +2.1 dB`."""
    parts = [f"{levels['integrated_lufs']:.1f} LUFS"] if levels.get("integrated_lufs") is not None else []
    parts += [f"true peak {levels['true_peak_dbtp']:.1f} dBTP"] if levels.get("true_peak_dbtp") is not None else []
    parts += [f"gain {levels['gain_db']:+.1f} dB"] if levels.get("gain_db") else []
    return [f"  {', '.join(parts)}"] if parts else []
