"""What ends the program from outside: Ctrl-C, SIGTERM, and a terminal that has gone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from music3_cli.errors import Interrupted

if TYPE_CHECKING:
    from music3_cli.jobs.executors.foreman import Stop

_HANGUP: int | None = getattr(signal, "SIGHUP", None)  # there is none on Windows


def _ending() -> list[int]:
    numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
    if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:  # nohup ignores it: so do we
        numbers.append(_HANGUP)
    return numbers


def interrupt_at_signals() -> None:
    """From now on a signal raises `Interrupted`; a second one ends at once, whatever the first is still tidying up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(number, _second(number, signal.SIG_DFL))
        raise Interrupted("interrupted; finished songs are kept")

    for number in _ending():
        signal.signal(number, interrupt)


@contextmanager
def graceful(stop: Stop) -> Iterator[None]:
    """Inside, a first signal asks the batch to stop; the second one is the program's own again, and ends it at once."""
    before = {number: signal.getsignal(number) for number in _ending()}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.requested = True
        for each, handler in before.items():
            signal.signal(each, _second(each, handler))

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _second(number: int, handler: signal._HANDLER) -> signal._HANDLER:
    """What the second signal of a kind does: a terminal that goes says so up to three times, from kernel and shell."""
    return signal.SIG_IGN if number == _HANGUP else handler
