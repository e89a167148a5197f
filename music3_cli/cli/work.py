"""Long work over files as people see it: one bar with speed and time left, heartbeat lines in a pipe, or nothing."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from music3_cli.cli import console
from music3_cli.cli.progress import HEARTBEAT_SECONDS, JSON_PROGRESS_SECONDS, Throttle
from music3_cli.events import Event, Note, Warned, WorkFinished, WorkProgress, WorkStarted
from music3_cli.song.limits import clock

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

_SPEED_SECONDS = 10.0

TITLES = {"download": "downloading", "verify": "verifying", "convert": "converting", "check": "comparing"}


def size_text(count: float) -> str:
    """`28.5 GB`, `1.6 kB`: decimal units, as file sizes are told."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def show_work(steps: Generator[Event, None, T], *, as_json: bool, quiet: bool, no_progress: bool) -> T:
    """Run `steps` to its end, show its events and give what it returns.

    Args:
        as_json: events as JSON lines on stdout instead.
        quiet: only warnings.
    """
    with _View(as_json, quiet, no_progress) as view:
        while True:
            try:
                event = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            view.take(event)


class _View:
    def __init__(self, as_json: bool, quiet: bool, no_progress: bool) -> None:
        self._json, self._quiet = as_json, quiet
        self._due = Throttle(JSON_PROGRESS_SECONDS if as_json else HEARTBEAT_SECONDS)
        self._lines = not (quiet or no_progress or as_json)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._seen: deque[tuple[float, int]] = deque()
        terminal = console.stderr_console()
        if self._lines and terminal.is_terminal and not terminal.is_dumb_terminal:
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[text]}"))
            self._progress = Progress(*columns, console=terminal, transient=True)

    def __enter__(self) -> _View:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def take(self, event: Event) -> None:
        if self._json:
            if not isinstance(event, WorkProgress) or self._due():
                console.record(event.to_json())
            return
        match event:
            case WorkStarted():
                self._seen.clear()
                self._due()
                if self._progress is not None:
                    title = TITLES[event.work]
                    self._task = self._progress.add_task(title, total=max(1, event.total_bytes), text="")
            case WorkProgress():
                self._advance(event)
            case WorkFinished():
                if self._progress is not None and self._task is not None:
                    self._progress.remove_task(self._task)
            case Note() if not self._quiet:
                self._say(f"note: {event.message}")
            case Warned():
                self._say(f"warning: {event.message}")
            case _:
                pass

    def _advance(self, event: WorkProgress) -> None:
        now = time.monotonic()
        self._seen.append((now, event.done_bytes))
        # The last seconds only: what was found on the disk came at another speed than what is fetched.
        while len(self._seen) > 2 and now - self._seen[0][0] > _SPEED_SECONDS:
            self._seen.popleft()
        since, first = self._seen[0]
        text = f"{size_text(event.done_bytes)} of {size_text(event.total_bytes)}"
        if now - since > 0.5 and event.done_bytes > first:
            speed = (event.done_bytes - first) / (now - since)
            left = clock(max(0, event.total_bytes - event.done_bytes) / speed)
            text += f", {size_text(speed)}/s, {left} left"
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=event.done_bytes, text=text)
        elif self._lines and now - since > 0.5 and self._due():
            self._say(f"{TITLES[event.work]}: {text}")

    def _say(self, line: str) -> None:
        if self._progress is not None:
            self._progress.console.print(line)
        else:
            console.talk(line)


def peak_memory_bytes() -> int:
    """The greatest resident memory of this process so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if os.uname().sysname == "Darwin" else peak * 1024
