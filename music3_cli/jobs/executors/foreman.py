"""Who renders what: songs are handed out, what became of them is noted, and faults of the machine are tried again.

It knows nothing of processes or machines. A worker asks for a song, renders several at once if it can, and tells
events; one that disappears gives its songs back.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from music3_cli.events import Event, SongFailed, SongFinished, SongRetried
from music3_cli.jobs.plan import PlannedSong


@dataclass
class Stop:
    """A wish to stop, set from outside at any time.

    Attributes:
        mode: `finish`: songs that run are finished; `drop`: they are given up.
    """

    mode: str = "finish"
    requested: bool = False

    @property
    def drops(self) -> bool:
        return self.requested and self.mode == "drop"


class Foreman:
    """Hands out songs in their order.

    Args:
        retries: how often a song is tried again after a fault of the machine.
        fail_fast: no song is begun after one has failed.
    """

    def __init__(self, songs: Iterable[PlannedSong], retries: int, fail_fast: bool, stop: Stop) -> None:
        self._waiting = deque(songs)
        self._running: dict[str, dict[str, PlannedSong]] = {}
        self._faults: Counter[str] = Counter()
        self._retries, self._fail_fast, self._stop = retries, fail_fast, stop
        self._failed = False

    @property
    def has_waiting(self) -> bool:
        """Whether there are songs that may be begun."""
        return bool(self._waiting) and not self._stop.requested and not (self._failed and self._fail_fast)

    @property
    def running(self) -> int:
        return sum(len(songs) for songs in self._running.values())

    def next(self, worker: str) -> PlannedSong | None:
        """A song for a worker; None if there is none for it now.

        A song that a fault has met before runs alone, so that it takes no others with it if it was the reason.
        """
        mine = self._running.setdefault(worker, {})
        if not self.has_waiting or any(self._faults[id] for id in mine):
            return None
        if mine and self._faults[self._waiting[0].request.id]:
            return None
        song = self._waiting.popleft()
        mine[song.request.id] = song
        return song

    def hand_out(self, worker: str) -> Iterator[PlannedSong]:
        """Songs for a worker as long as there are some."""
        while (song := self.next(worker)) is not None:
            yield song

    def seen(self, worker: str, event: Event) -> Iterator[Event]:
        """An event of a worker, or what it means for the batch."""
        if isinstance(event, SongFinished):
            self._running[worker].pop(event.song, None)
        if isinstance(event, SongFailed):
            song = self._running[worker].pop(event.song, None)
            if song is not None and event.of_machine:
                yield self._again(song, event.message, event.hint)
                return
            self._failed = True
        yield event

    def lost(self, worker: str, message: str) -> Iterator[Event]:
        """A worker is gone, or lost its device; its songs are to be rendered again."""
        for song in self._running.pop(worker, {}).values():
            yield self._again(song, message, "")

    def _again(self, song: PlannedSong, message: str, hint: str) -> Event:
        id = song.request.id
        self._faults[id] += 1
        if self._faults[id] > self._retries:
            self._failed = True
            return SongFailed(id, message, hint, True)
        self._waiting.append(song)
        return SongRetried(id, message, self._faults[id] + 1)
