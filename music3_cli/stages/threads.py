"""Several sources of events side by side, each in a thread of its own, as one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from music3_cli.events import Event

Source = Callable[[], Iterator[Event]]


@dataclass(frozen=True)
class _Ended:
    error: BaseException | None


def merged(sources: Sequence[Source], stop: Callable[[], None]) -> Iterator[Event]:
    """The events of all sources, each source's own in order.

    The first error of a source is raised here, behind the events before it, and ends the others; so does closing this
    iterator. No thread outlives it.

    Args:
        stop: wakes sources that wait for something; they end at their next event at the latest.
    """
    queue: SimpleQueue[Event | _Ended] = SimpleQueue()
    stopping = threading.Event()

    def run(source: Source) -> None:
        error = None
        try:
            events = source()
            try:
                for event in events:
                    queue.put(event)
                    if stopping.is_set():
                        break
            finally:
                if isinstance(events, Generator):
                    events.close()
        except BaseException as caught:  # whatever it is, the caller's thread raises it
            error = caught
        queue.put(_Ended(error))

    threads = [threading.Thread(target=run, args=(source,), name="music3 stage") for source in sources]
    try:
        for thread in threads:
            thread.start()
        running = len(threads)
        while running:
            event = queue.get()
            if not isinstance(event, _Ended):
                yield event
                continue
            running -= 1
            if event.error is not None:
                raise event.error
    finally:
        stopping.set()
        stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
