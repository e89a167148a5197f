"""The songs between the stages: which device each one's windows go to, and what is to be done next.

The talker's side opens songs and tells their news; every acoustic device works on its own songs, oldest first, a window
at a time. Both sides may be threads or take turns in one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from music3_cli.acoustic.engine import AcousticEngine
from music3_cli.checkpoint.architecture import Architecture
from music3_cli.devices import on_device
from music3_cli.events import Event
from music3_cli.stages.sounding import RenderJob, Sounding
from music3_cli.talker.song import TalkerSong


class Desk:
    """Songs that the talker has begun and that are no files yet.

    Args:
        devices: of the acoustic stage; a song's windows stay on one of them.
        most: songs that may be here at once, so that the talker does not run ahead of the memory for its frames.
    """

    def __init__(self, architecture: Architecture, devices: Sequence[torch.device], most: int) -> None:
        self.architecture, self.devices, self.most = architecture, tuple(devices), most
        self._news = threading.Condition()
        self._songs: list[list[Sounding]] = [[] for _ in devices]
        # The song of each device whose last solved window is not yet written.
        self._unwritten: list[Sounding | None] = [None for _ in devices]
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
        yield from self._write(place)

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
                            or self._unwritten[place] is not None
                            or (self._talker_is_done and not self._songs[place])
                        )
                    )
                if self._stopped:
                    return
                if (sounding := self._next(place)) is not None:
                    yield from self._advance(place, sounding, engine)
                elif self._unwritten[place] is not None:
                    yield from self._write(place)
                else:
                    return

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
        """Solve a window, and write the one before while the device is at work."""
        with on_device(self.devices[place]):
            try:
                yield from self._leaving(place, sounding, sounding.solve(engine, partial(self._write, place)))
            except Exception:
                yield from self._write(place)  # the window before is solved, maybe a song's last
                raise
            yield from self._write(place)  # a song that failed at once left no time for it
        if sounding.unwritten:
            self._unwritten[place] = sounding

    def _write(self, place: int) -> Iterator[Event]:
        sounding, self._unwritten[place] = self._unwritten[place], None
        if sounding is not None and sounding.unwritten:
            yield from self._leaving(place, sounding, sounding.write())

    def _leaving(self, place: int, sounding: Sounding, events: Iterator[Event]) -> Iterator[Event]:
        """What happens to a song; it is gone from here before its last event is known."""
        for event in events:
            if sounding.done and sounding in self._songs[place]:
                self._leave(place, sounding)
            yield event

    def _leave(self, place: int, sounding: Sounding) -> None:
        with self._news:
            self._songs[place].remove(sounding)
            del self._by_id[sounding.song.id]
            if not sounding.song.dropped:
                self._rendered[sounding.song.id] = sounding
            self._news.notify_all()
