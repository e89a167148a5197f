"""What happens during a run, as typed records. Stages yield them; `cli/progress.py` shows them as bars, lines or JSON.

As JSON (`--json`), a record is one line: its class name in snake case under `event`, and its fields. Fields are only
ever added (docs/cli.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    @classmethod
    def json_name(cls) -> str:
        """The class name in snake case."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def to_json(self) -> dict[str, object]:
        return {"event": self.json_name(), **asdict(self)}


@dataclass(frozen=True)
class Note(Event):
    """Something the user should know that is no fault: what was cleaned, assumed or left out."""

    message: str


@dataclass(frozen=True)
class Warned(Event):
    """Something that probably is not meant, and what to do about it."""

    message: str
    song: str = ""


@dataclass(frozen=True)
class PlacementChosen(Event):
    """What will run where, in words and in numbers (placement.py's fields, sizes in bytes)."""

    message: str
    placement: Mapping[str, object]


@dataclass(frozen=True)
class LoadStarted(Event):
    """Weights are being read; `total_bytes` is what will be read from disk."""

    checkpoint: str
    device: str
    total_bytes: int


@dataclass(frozen=True)
class LoadProgress(Event):
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class LoadFinished(Event):
    seconds: float


@dataclass(frozen=True)
class TalkerStarted(Event):
    """A song's prompt goes into the talker; `ceiling_frames` is the most it may emit."""

    song: str
    prompt_tokens: int
    ceiling_frames: int


@dataclass(frozen=True)
class TalkerProgress(Event):
    song: str
    frames: int
    ceiling_frames: int


@dataclass(frozen=True)
class TalkerFinished(Event):
    """`finish_reason` is `end` (the model ended the song) or `ceiling` (it was cut off)."""

    song: str
    frames: int
    finish_reason: str
    seconds: float


@dataclass(frozen=True)
class AcousticStarted(Event):
    """The first window begins. While the talker still runs, `windows` is the most there may be."""

    song: str
    windows: int
    steps: int


@dataclass(frozen=True)
class AcousticProgress(Event):
    """`step` of `steps` Euler steps of window `window` (counted from 0) are done, or given to a GPU. While the talker
    still runs, `windows` is the most there may be.
    """

    song: str
    window: int
    windows: int
    step: int
    steps: int


@dataclass(frozen=True)
class WindowFinished(Event):
    """Window `window` (counted from 0) is solved, which took `seconds`; its sound goes to the file next."""

    song: str
    window: int
    seconds: float


@dataclass(frozen=True)
class SongKept(Event):
    """A file from an earlier run is exactly the song that was asked for."""

    song: str
    path: str


@dataclass(frozen=True)
class SongFinished(Event):
    """The file and its sidecar are in place."""

    song: str
    path: str
    seed: int
    take: int
    frames: int
    audio_seconds: float
    finish_reason: str
    timings: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    levels: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class SongFailed(Event):
    """`of_machine`: a fault of disk, device or worker, which another try may not meet; not of the song."""

    song: str
    message: str
    hint: str = ""
    of_machine: bool = False


@dataclass(frozen=True)
class SongRetried(Event):
    """A fault of the machine stopped the song; it waits for try number `attempt`."""

    song: str
    message: str
    attempt: int


@dataclass(frozen=True)
class SongSkipped(Event):
    """A song of a batch that is invalid and left out."""

    song: str
    message: str


@dataclass(frozen=True)
class BatchStarted(Event):
    """A batch begins: songs to render and their ceilings together, and where its files go."""

    folder: str
    songs: int
    kept: int
    skipped: int
    ceiling_frames: int
    workers: int


@dataclass(frozen=True)
class WorkerReady(Event):
    """A worker of a batch has its weights and takes songs."""

    worker: str
    device: str
    host: str
    pid: int


@dataclass(frozen=True)
class WorkerLost(Event):
    """A worker ended without being asked; its songs go to others."""

    worker: str
    message: str


@dataclass(frozen=True)
class Stopping(Event):
    """The user asked the batch to stop; `mode` says what happens to running songs: `finish` or `drop`."""

    mode: str


@dataclass(frozen=True)
class PageWritten(Event):
    """The batch's audition page is in place."""

    path: str


@dataclass(frozen=True)
class RunFinished(Event):
    """The last record of a run. `peak_device_bytes` is 0 on a CPU."""

    rendered: int
    kept: int
    failed: int
    audio_seconds: float
    seconds: float
    exit_code: int
    peak_device_bytes: int = 0


@dataclass(frozen=True)
class WorkStarted(Event):
    """Long work over files begins: `work` is `download`, `verify`, `convert` or `check`."""

    work: str
    files: int
    total_bytes: int


@dataclass(frozen=True)
class WorkProgress(Event):
    work: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class WorkFinished(Event):
    work: str
    files: int
    done_bytes: int
    seconds: float


@dataclass(frozen=True)
class DownloadFinished(Event):
    """The checkpoint lies whole and right in `path`; `fetched` is false where it did already."""

    path: str
    fetched: bool


@dataclass(frozen=True)
class ConvertFinished(Event):
    """The modular folder is in place. `check` compares it with another one: `equal` (a count), `different`, `missing`
    and `extra` tensors; None where nobody asked.
    """

    path: str
    tensors: int
    bytes: int
    peak_memory_bytes: int
    check: Mapping[str, object] | None = None
