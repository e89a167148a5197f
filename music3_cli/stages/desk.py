"""The songs between the stages: which device each one's windows go to, and what is to be done next.

The talker's side opens songs and tells their news; every acoustic device works on its own songs, oldest first, a window
at a time. Both sides may be threads or take turns in one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch

from music3_cli.acoustic.engine import AcousticEngine
from music3_cli.checkpoint.architecture import Architecture
from music3_cli.devices import on_device
from music3_cli.events import Event
from music3_cli.stages.sounding import RenderJob, Sounding
from music3_cli.talker.song import TalkerSong


class Gate:
    """The arithmetic of float32 products is the process's, not a thread's: work of one kind runs side by side, work of
    another waits until it is over.

    Args:
        arithmetic: from a precision's name to the settings to be in.
    """

    def __init__(self, arithmetic: Callable[[str], AbstractContextManager[None]]) -> None:
        self._arithmetic = arithmetic
        self._changed = threading.Condition()
        self._precision, self._users = "", 0
        self._settings: AbstractContextManager[None] | None = None

    @contextmanager
    def __call__(self, precision: str) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._users or self._precision == precision)
            if not self._users:
                self._settings = self._arithmetic(precision)
                self._settings.__enter__()
            self._precision, self._users = precision, self._users + 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users and self._settings is not None:
                    self._settings.__exit__(None, None, None)
                    self._changed.notify_all()


class Desk:
    """Songs that the talker has begun and that are no files yet.

    Args:
        devices: of the acoustic stage; a song's windows stay on one of them.
        most: songs that may be here at once, so that the talker does not run ahead of the memory for its frames.
    """

    def __init__(self, architecture: Architecture, devices: Sequence[torch.device], most: int, gate: Gate) -> None:
        self.architecture, self.devices, self.most, self.gate = architecture, tuple(devices), most, gate
        self._news = threading.Condition()
        self._songs: list[list[Sounding]] = [[] for _ in devices]
        self._rendered: dict[str, Sounding] = {}
        self._by_id: dict[str, Sounding] = {}
        self._talker_is_done = self._stopped = False

    def open(self, job: RenderJob, song: TalkerSong) -> None:
        """A song begins; it goes to the device with the least to do."""
        with self._news:
            place = min(self._songs, key=lambda songs: sum(one.frames_to_go for one in songs))
            place.append(Sounding(job, song, self.architecture))
            self._by_id[song.id] = place[-1]

    def tell(self, song: TalkerSong) -> None:
        """A song has news."""
        with self._news:
            if (sounding := self._by_id.get(song.id)) is not None:
                sounding.take()
                if sounding.ready:
                    self._news.notify_all()

    def talker_is_done(self) -> None:
        with self._news:
            self._talker_is_done = True
            self._news.notify_all()

    def has_room(self, wait: bool) -> bool:
        """Whether another song may begin; with `wait`, False means that there will be none."""
        with self._news:
            if wait:
                self._news.wait_for(lambda: self._stopped or len(self._by_id) < self.most)
            return not self._stopped and len(self._by_id) < self.most

    def work(self, place: int, engine: AcousticEngine) -> Iterator[Event]:
        """Everything that can be done on a device now."""
        while (sounding := self._next(place)) is not None:
            yield from self._advance(place, sounding, engine)

    def serve(self, place: int, engine: AcousticEngine) -> Iterator[Event]:
        """Everything that is to be done on a device, as it comes, until the talker has no more songs."""
        device = self.devices[place]
        with on_device(device, own_stream=True):
            while True:
                with self._news:
                    self._news.wait_for(
                        lambda: (
                            self._stopped
                            or self._next(place) is not None
                            or (self._talker_is_done and not self._songs[place])
                        )
                    )
                sounding = self._next(place)
                if self._stopped or sounding is None:
                    return
                yield from self._advance(place, sounding, engine)

    def settle(self, song: str) -> None:
        """Whoever took a rendered song is done with it."""
        self._rendered.pop(song).close()

    def stop(self) -> None:
        """Nobody waits here any more."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def close(self) -> None:
        """Drop what is not a file yet, and rendered songs that nobody took."""
        for sounding in [*self._by_id.values(), *self._rendered.values()]:
            sounding.song.dropped = True
            sounding.close()

    def _next(self, place: int) -> Sounding | None:
        return next((sounding for sounding in self._songs[place] if sounding.ready), None)

    def _advance(self, place: int, sounding: Sounding, engine: AcousticEngine) -> Iterator[Event]:
        with on_device(self.devices[place]), self.gate(sounding.job.request.precision):
            for event in sounding.advance(engine):
                if sounding.done:
                    self._leave(place, sounding)
                yield event

    def _leave(self, place: int, sounding: Sounding) -> None:
        with self._news:
            self._songs[place].remove(sounding)
            del self._by_id[sounding.song.id]
            if not sounding.song.dropped:
                self._rendered[sounding.song.id] = sounding
            self._news.notify_all()
