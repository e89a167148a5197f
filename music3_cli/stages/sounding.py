"""A song in the acoustic stage: takes frames as the talker gives them, makes every window that is known into sound, and
writes it.

Solving and writing are two steps, so that the host can write a window while the device solves the next one, of this
song or of another.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from music3_cli.acoustic.engine import AcousticEngine, Launched, Part, Redone, Solved, Sound
from music3_cli.acoustic.windows import HOP_FRAMES, Window, count_windows, window_at
from music3_cli.audio.tags import Tags
from music3_cli.audio.writer import AudioWriter, WrittenAudio
from music3_cli.checkpoint.architecture import Architecture
from music3_cli.errors import OutputError, SongError
from music3_cli.events import AcousticProgress, AcousticStarted, Event, SongFailed, Warned, WindowFinished
from music3_cli.randomness import dither_words
from music3_cli.song.codes import SongCodes
from music3_cli.song.request import SongRequest
from music3_cli.talker.song import Hiddens, TalkerSong


@dataclass(frozen=True)
class RenderJob:
    """A song, where it goes, and its file's labels."""

    request: SongRequest
    path: Path
    tags: Tags


@dataclass(frozen=True)
class SongRendered(Event):
    """A whole song under its unfinished name; whoever takes this event commits the writer, or the file is removed.

    Attributes:
        seams: where windows join, in seconds.
        arithmetic: the acoustic stage's on this device.
        redone: windows that were solved again, by the precision with which.
    """

    job: RenderJob
    writer: AudioWriter
    audio: WrittenAudio
    codes: SongCodes
    seams: tuple[float, ...]
    arithmetic: str
    redone: Mapping[str, int]
    talker_seconds: float
    acoustic_seconds: float


class Sounding:
    """One song between the talker and its file.

    The talker's side calls `take` whenever the song has news; the acoustic side calls `solve` while `ready`, and
    `write` behind it. Whoever shares a song between threads guards `take` and `ready` with one lock.
    """

    def __init__(self, job: RenderJob, song: TalkerSong, architecture: Architecture) -> None:
        self.job, self.song = job, song
        self.done = False
        self._condition, self._rate = architecture.condition, architecture.vocoder.sampling_rate
        # Frames so far and whether there are no more: one value, which the other side always sees whole.
        self._known = (0, False)
        self._first, self._hiddens = 0, list[Hiddens]()
        self._codes: SongCodes | None = None
        self._parts: Generator[Part] | None = None
        self._sound: Sound | None = None
        self._arithmetic = ""
        self._writer: AudioWriter | None = None
        self._next, self._samples, self._seconds = 0, 0, 0.0
        self._seams: list[float] = []
        self._redone: Counter[str] = Counter()

    def take(self) -> None:
        """The song's news: hiddens that its slot gave away, and whether it is whole."""
        taken, whole = self.song.take_hiddens(), bool(self.song.finish_reason)
        if self.done:
            return
        self._hiddens += taken
        if whole and self.song.frames:
            self._codes = _codes_of(self.song)  # before noise is drawn that waits for the song's end
        self._known = (self.song.frames, whole)

    @property
    def ready(self) -> bool:
        """Whether there is a window to solve, or an end to come to."""
        frames, whole = self._known
        if self.done or (self.song.randomness.noise_waits and not whole):
            return False
        if whole and (not frames or self.song.finish_reason == "broken"):
            return True
        return window_at(self._next, frames, whole, self._condition) is not None

    @property
    def frames_to_go(self) -> int:
        """The most frames that are not yet sound."""
        frames, whole = self._known
        return max(0, (frames if whole else self.song.max_frames) - self._next * HOP_FRAMES)

    @property
    def unwritten(self) -> bool:
        """Whether a solved window waits for `write`."""
        return self._sound is not None

    def solve(self, engine: AcousticEngine, meanwhile: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        """One window. What goes wrong ends this song alone.

        Args:
            meanwhile: what the host does while the device is at work; it may end this song.
        """
        try:
            yield from self._solve(engine, meanwhile)
        except (SongError, OutputError) as error:
            yield self._failed(error)

    def write(self) -> Iterator[Event]:
        """The solved window to the file; behind the last one the file's end. What goes wrong ends this song alone."""
        try:
            yield from self._write()
        except (SongError, OutputError) as error:
            yield self._failed(error)

    def close(self) -> None:
        """No more of this song: an unfinished file is removed."""
        self.done = True
        self._hiddens, self._sound = [], None
        if self._parts is not None:
            self._parts.close()
        if self._writer is not None:
            self._writer.discard()

    def _failed(self, error: SongError | OutputError) -> SongFailed:
        self.close()
        self.song.dropped = True
        return SongFailed(self.song.id, error.message, error.hint, isinstance(error, OutputError))

    def _solve(self, engine: AcousticEngine, meanwhile: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        started, beside = time.perf_counter(), 0.0
        song, request = self.song, self.job.request
        frames, whole = self._known
        windows, steps = count_windows(frames if whole else song.max_frames), request.steps
        if whole and song.finish_reason == "broken":
            raise SongError(
                f"the talker's values are not finite behind frame {frames}",
                hint="`music3 verify --deep` finds weights that are not; another --seed or --talker-dtype may help.",
            )
        if whole and not frames:
            raise SongError(
                "the model ended the song before its first frame",
                hint="Try another --seed; if all seeds do this, the model does not know what to do with this text.",
            )
        if self._parts is None:
            yield AcousticStarted(song.id, windows, steps)
            self._writer = AudioWriter(self.job.path, self._rate, request.delivery, lambda: dither_words(request.seed))
            self._arithmetic = engine.arithmetic(request.precision)
            self._parts = engine.run_windows(
                self._pieces(engine.device), song.randomness, steps, request.guidance, request.precision, request.shift
            )
        for part in self._parts:
            match part:
                case Solved():
                    yield AcousticProgress(song.id, part.window.index, windows, part.steps, steps)
                case Launched():
                    left = time.perf_counter()
                    yield from meanwhile()
                    if engine.device.type == "cpu":  # which cannot solve and write at once
                        beside = time.perf_counter() - left
                case Redone():
                    self._redone[part.precision] += 1
                case Sound():
                    self._sound = part
                    if (reason := engine.graphs.eager_because) and part.window.index == 0:
                        yield Warned(f"the acoustic stage runs without CUDA graphs, slower: {reason}")
                    yield WindowFinished(song.id, part.window.index, time.perf_counter() - started - beside)
                    break
        self._seconds += time.perf_counter() - started - beside

    def _pieces(self, device: torch.device) -> Iterator[tuple[Window, torch.Tensor]]:
        """Windows and their frames' hiddens. Only asked for the next one while `ready`."""
        while (window := window_at(self._next, *self._known, self._condition)) is not None:
            self._next += 1
            frames_FD = self._frames_of(window, device)
            # The next window begins one hop later; what lies before is of no more use.
            while self._hiddens and self._first + len(self._hiddens[0].frames_FCH) <= self._next * HOP_FRAMES:
                self._first += len(self._hiddens.pop(0).frames_FCH)
            yield window, frames_FD

    def _frames_of(self, window: Window, device: torch.device) -> torch.Tensor:
        """[frames, 8 x H] on `device`."""
        parts, first = [], self._first
        for hiddens in list(self._hiddens):
            stop = first + len(hiddens.frames_FCH)
            if stop > window.start and first < window.stop:
                part_FD = hiddens.wait()
                if part_FD.is_cuda:  # its memory must outlast what this stream still has to read
                    part_FD.record_stream(torch.cuda.current_stream(part_FD.device))
                parts.append(part_FD[max(0, window.start - first) : window.stop - first].to(device))
            first = stop
        return torch.cat(parts)

    def _write(self) -> Iterator[Event]:
        started = time.perf_counter()
        sound, self._sound = self._sound, None
        assert sound is not None and self._writer is not None
        samples_CS = sound.wait()
        self._writer.write(samples_CS.numpy())
        self._seconds += time.perf_counter() - started
        self._samples += samples_CS.shape[1]
        self._seams.append(round(self._samples / self._rate, 4))
        frames, whole = self._known
        if whole and sound.window.index + 1 == count_windows(frames):
            yield self._finish(self._writer)

    def _finish(self, writer: AudioWriter) -> SongRendered:
        started = time.perf_counter()
        audio = writer.finish(self.job.tags)
        self.done = True
        self._seconds += time.perf_counter() - started
        assert self._codes is not None
        return SongRendered(
            self.job,
            writer,
            audio,
            self._codes,
            tuple(self._seams[:-1]),
            self._arithmetic,
            dict(self._redone),
            self.song.seconds,
            self._seconds,
        )


def _codes_of(song: TalkerSong) -> SongCodes:
    """A song's codes once the talker is done with it."""
    state = song.randomness.noise_state()
    return SongCodes(
        np.array(song.codes, np.int16),
        np.array(song.priming, np.int16),
        song.finish_reason,
        None if state is None else np.frombuffer(state, np.uint8),
    )
