"""A batch's events as people see them: one bar for all and a line for each running song, or heartbeat lines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from music3_cli.cli import console
from music3_cli.cli.progress import LiveView, Throttle, View, describe
from music3_cli.events import (
    AcousticProgress,
    AcousticStarted,
    BatchStarted,
    Event,
    SongFailed,
    SongFinished,
    SongKept,
    SongRetried,
    SongSkipped,
    TalkerFinished,
    TalkerProgress,
    TalkerStarted,
    Warned,
    WorkerLost,
)
from music3_cli.song.limits import clock, frames_to_seconds

if TYPE_CHECKING:
    from rich.progress import TaskID

MOST_LINES = 16
"""Running songs that are shown at once."""


class Tally:
    """How far a batch is. A song counts by its ceiling, which is known before it has sound."""

    def __init__(self) -> None:
        self.songs = self.done = self.frames = self.done_frames = 0
        self.audio_seconds = 0.0
        self._ceilings: dict[str, int] = {}
        self._since = time.monotonic()

    def take(self, event: Event) -> None:
        match event:
            case BatchStarted():
                self.songs, self.frames, self._since = event.songs, event.ceiling_frames, time.monotonic()
            case TalkerStarted():
                self._ceilings[event.song] = event.ceiling_frames
            case SongFinished() | SongFailed():
                self.done += 1
                self.done_frames += self._ceilings.pop(event.song, 0)
                if isinstance(event, SongFinished):
                    self.audio_seconds += event.audio_seconds
            case _:
                pass

    def text(self) -> str:
        """`3 of 12 songs, 1:20 left, 0:36 of sound, 2.1x real time`."""
        seconds = time.monotonic() - self._since
        text = f"{self.done} of {self.songs} songs"
        if self.done_frames and self.done < self.songs:
            left = clock(seconds * (self.frames - self.done_frames) / self.done_frames)
            text += f", {left} left"
        if self.audio_seconds:
            text += f", {clock(self.audio_seconds)} of sound, {self.audio_seconds / seconds:.1f}x real time"
        return text


def song_text(event: Event) -> str:
    """Where a running song is."""
    match event:
        case TalkerStarted():
            return "talker"
        case TalkerProgress():
            return f"talker, {event.frames} of at most {event.ceiling_frames} frames"
        case TalkerFinished():
            return f"{clock(frames_to_seconds(event.frames))} composed"
        case AcousticStarted():
            return f"acoustic, {event.windows} window{'s' * (event.windows != 1)}"
        case AcousticProgress():
            return f"acoustic, window {event.window + 1} of {event.windows}, step {event.step} of {event.steps}"
        case _:
            return ""


def lines_of(event: Event) -> list[str]:
    """The lines that stay. A batch says less of each song than `render` does."""
    return [] if isinstance(event, TalkerFinished | SongKept) else describe(event)


class BatchLines(View):
    """Plain lines on stderr, finished files on stdout.

    Args:
        heartbeat: seconds between progress lines, None for none.
    """

    def __init__(self, heartbeat: float | None, quiet: bool = False) -> None:
        self._due = Throttle(heartbeat) if heartbeat else None
        self._quiet = quiet
        self._tally = Tally()

    def take(self, event: Event) -> None:
        self._tally.take(event)
        if isinstance(event, SongFinished | SongKept):
            console.data(event.path)
        important = isinstance(event, Warned | SongFailed | SongRetried | SongSkipped | WorkerLost)
        for line in lines_of(event) if important or not self._quiet else ():
            console.talk(line)
        text = song_text(event)
        if text and self._due is not None and not self._quiet and self._due():
            console.talk(f"{self._tally.text()}; {getattr(event, 'song', '')}: {text}")


class BatchBars(LiveView):
    """One bar for the batch, and a line for each running song."""

    def __init__(self) -> None:
        super().__init__()
        self._tally = Tally()
        self._all: TaskID | None = None
        self._songs: dict[str, TaskID] = {}

    def take(self, event: Event) -> None:
        self._tally.take(event)
        self._say(event, lines_of(event))
        if isinstance(event, BatchStarted):
            self._all = self._progress.add_task("batch", total=max(1, event.ceiling_frames), text="")
        self._show_song(event)
        if self._all is not None:
            self._progress.update(self._all, completed=self._tally.done_frames, text=self._tally.text())

    def _show_song(self, event: Event) -> None:
        song, text = getattr(event, "song", ""), song_text(event)
        if isinstance(event, SongFinished | SongFailed | SongRetried):
            task = self._songs.pop(song, None)
            if task is not None:
                self._progress.remove_task(task)
        if not text:
            return
        if song not in self._songs:
            if len(self._songs) >= MOST_LINES:
                return
            self._songs[song] = self._progress.add_task(song, total=None, text=text)
        match event:
            case TalkerProgress():
                self._progress.update(self._songs[song], total=event.ceiling_frames, completed=event.frames, text=text)
            case AcousticProgress():
                done, total = event.window * event.steps + event.step, event.windows * event.steps
                self._progress.update(self._songs[song], total=total, completed=done, text=text)
            case _:
                self._progress.update(self._songs[song], text=text)
