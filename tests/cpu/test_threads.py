"""Sources of events in threads: order, errors, and that no thread is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from music3_cli.events import Event, Note
from music3_cli.kernels.settings import SharedSettings
from music3_cli.stages.threads import merged


def notes(name: str, count: int) -> Iterator[Event]:
    for number in range(count):
        yield Note(f"{name}{number}")


def test_every_event_arrives_in_its_sources_order() -> None:
    events = list(merged([lambda: notes("a", 50), lambda: notes("b", 30), lambda: notes("c", 0)], lambda: None))
    for name, count in (("a", 50), ("b", 30)):
        own = [event.message for event in events if isinstance(event, Note) and event.message.startswith(name)]
        assert own == [f"{name}{number}" for number in range(count)]


def test_an_error_comes_behind_what_came_before_and_ends_the_others() -> None:
    before, stopped, ended = set(threading.enumerate()), threading.Event(), threading.Event()

    def failing() -> Iterator[Event]:
        yield Note("first")
        raise ValueError("broken")

    def endless() -> Iterator[Event]:
        try:
            while not stopped.wait(0.001):
                pass
            yield Note("never taken")
        finally:
            ended.set()

    seen = []
    with pytest.raises(ValueError, match="broken"):
        for event in merged([failing, endless], stopped.set):
            seen.append(event)
    assert seen == [Note("first")] and ended.is_set()
    assert set(threading.enumerate()) == before


def test_closing_ends_all() -> None:
    before = set(threading.enumerate())
    closed = []

    def endless() -> Iterator[Event]:
        try:
            while True:
                yield Note("again")
        finally:
            closed.append(True)

    events = merged([endless, endless], lambda: None)
    assert next(events) == Note("again")
    events.close()  # type: ignore[attr-defined]
    assert closed == [True, True] and set(threading.enumerate()) == before


def test_settings_of_the_process_are_shared_and_restored() -> None:
    """Who wants the same goes in; who wants another setting waits until nobody is inside; nothing is left behind."""
    settings, state, seen = SharedSettings(), ["own"], []

    @contextmanager
    def setting(name: str) -> Iterator[None]:
        before, state[0] = state[0], name
        yield
        state[0] = before

    def hold(name: str) -> None:
        for _ in range(200):
            with settings.held(name, lambda: setting(name)):
                seen.append(state[0] == name)

    threads = [threading.Thread(target=hold, args=(name,)) for name in ("tf32", "tf32", "fp32", "fp32")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen) and len(seen) == 800 and state == ["own"]
    with settings.held("fp32", lambda: setting("fp32")), settings.held("tf32", lambda: setting("tf32")):
        assert state == ["tf32"]
        with settings.held("tf32", lambda: setting("tf32")):
            pass
        assert state == ["tf32"]
    assert state == ["own"]
