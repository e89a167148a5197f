"""The batch's side of several workers: answers questions, passes events on, replaces workers that are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from music3_cli.errors import DeviceError
from music3_cli.events import Event, LoadFinished, LoadProgress, LoadStarted, WorkerLost, WorkerReady
from music3_cli.jobs.executors.foreman import Foreman, Stop
from music3_cli.jobs.executors.worker import Message
from music3_cli.jobs.plan import PlannedSong

WAIT_SECONDS = 0.3
"""How late a wish to stop may be noticed."""

MOST_STARTS = 2
"""In a row, of a worker that never gets ready."""


class Transport(Protocol):
    """Where workers live."""

    def start(self, worker: str) -> None:
        """Start a worker; one of that name that was lost is replaced."""

    def wait(self, seconds: float) -> Sequence[tuple[str, Message]]:
        """What workers say; a worker that is gone says `lost`."""

    def answer(self, worker: str, song: PlannedSong | None) -> None:
        """Answer the question of a worker."""

    def close(self) -> None:
        """End all workers that are left, whatever they do."""


def run_crew(workers: Sequence[str], transport: Transport, foreman: Foreman, stop: Stop) -> Iterator[Event]:
    """Render what the foreman has with several workers.

    Raises:
        DeviceError, CheckpointError: no worker can work.
    """
    starts: Counter[str] = Counter()
    alive, parked = set(workers), set[str]()
    try:
        for worker in workers:
            transport.start(worker)
        while (foreman.has_waiting or foreman.running) and not stop.drops:
            for worker, (kind, content) in transport.wait(WAIT_SECONDS):
                if kind == "event":
                    if not isinstance(content, LoadStarted | LoadProgress | LoadFinished):
                        yield from foreman.seen(worker, content)
                elif kind == "ready":
                    starts[worker] = 0
                    yield WorkerReady(worker, *content)
                elif kind == "refused":
                    raise content
                elif kind == "next":
                    transport.answer(worker, foreman.next(worker))
                elif kind == "idle":
                    parked.add(worker)
                elif worker in alive:
                    parked.discard(worker)
                    yield WorkerLost(worker, content)
                    yield from foreman.lost(worker, f"worker {worker}: {content}")
                    starts[worker] += 1
                    if starts[worker] < MOST_STARTS and foreman.has_waiting:
                        transport.start(worker)
                    else:
                        alive.discard(worker)
            for worker in sorted(parked):
                if (song := foreman.next(worker)) is not None:
                    parked.discard(worker)
                    transport.answer(worker, song)
            if not alive and foreman.has_waiting:
                raise DeviceError("no worker gets ready; each ended while it loaded the weights")
        if not stop.drops:
            for worker in parked:
                transport.answer(worker, None)
    finally:
        transport.close()
