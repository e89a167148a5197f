"""Work over many files at once: a few threads, one count of bytes, events while they run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from music3_cli.errors import Interrupted
from music3_cli.events import Event, WorkFinished, WorkProgress, WorkStarted

T = TypeVar("T")

WORKERS = 8
"""Files at once: the released weights lie in twelve files, seven of them about 5 GB."""
_EVENT_SECONDS = 0.2


class Work:
    """What the threads of one piece of work share: bytes done, and whether to stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._stopped = threading.Event()

    @property
    def done_bytes(self) -> int:
        return self._done

    def add(self, count: int) -> None:
        """Count bytes (fewer than none to take some back).

        Raises:
            Interrupted: the work was stopped.
        """
        with self._lock:
            self._done += count
        if self._stopped.is_set():
            raise Interrupted("stopped")

    def sleep(self, seconds: float) -> None:
        """Wait, but not longer than the work goes on.

        Raises:
            Interrupted: the work was stopped.
        """
        if self._stopped.wait(seconds):
            raise Interrupted("stopped")

    def stop(self) -> None:
        self._stopped.set()


def run_jobs(
    name: str, jobs: Sequence[Callable[[Work], T]], total_bytes: int, workers: int = WORKERS
) -> Generator[Event, None, list[T]]:
    """Run jobs in threads; the first that fails stops the others.

    Yields:
        `WorkStarted`, `WorkProgress` five times a second, `WorkFinished`.

    Returns:
        the jobs' results in their order.

    Raises:
        whatever the first failing job raised.
    """
    started = time.perf_counter()
    work = Work()
    yield WorkStarted(name, len(jobs), total_bytes)
    pool = ThreadPoolExecutor(min(workers, max(1, len(jobs)), 4 * (os.cpu_count() or 1)))
    futures: list[Future[T]] = []
    try:
        futures = [pool.submit(job, work) for job in jobs]
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_EVENT_SECONDS, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            yield WorkProgress(name, work.done_bytes, total_bytes)
        yield WorkFinished(name, len(jobs), work.done_bytes, time.perf_counter() - started)
        return [future.result() for future in futures]
    finally:
        work.stop()
        pool.shutdown(wait=True, cancel_futures=True)


def finish(steps: Generator[Event, None, T]) -> T:
    """Run a generator of events to its end and give what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
