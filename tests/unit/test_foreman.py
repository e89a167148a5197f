"""Who renders what in a batch, without any worker: orders, retries, lost workers, stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from music3_cli.errors import DeviceError
from music3_cli.events import Event, SongFailed, SongFinished, SongRetried, WorkerLost
from music3_cli.jobs.executors.crew import run_crew
from music3_cli.jobs.executors.foreman import Foreman, Stop


def song(id: str) -> Any:
    return SimpleNamespace(request=SimpleNamespace(id=id))


def finished(id: str) -> SongFinished:
    return SongFinished(id, str(Path(id)), 0, 1, 25, 1.0, "end")


def foreman(ids: str, retries: int = 1, fail_fast: bool = False, stop: Stop | None = None) -> Foreman:
    return Foreman([song(id) for id in ids], retries, fail_fast, stop or Stop())


def take(boss: Foreman, worker: str) -> str:
    given = boss.next(worker)
    return given.request.id if given else ""


def test_songs_go_out_in_order_and_once() -> None:
    boss = foreman("abc")
    assert [take(boss, "x"), take(boss, "y"), take(boss, "x"), take(boss, "y")] == ["a", "b", "c", ""]
    assert boss.running == 3 and not boss.has_waiting
    assert list(boss.seen("x", finished("a"))) == [finished("a")]
    assert boss.running == 2


def test_a_fault_of_the_machine_is_tried_again_and_one_of_the_song_is_not() -> None:
    boss = foreman("ab")
    assert take(boss, "x") + take(boss, "x") == "ab"
    assert list(boss.seen("x", SongFailed("a", "disk", "", True))) == [SongRetried("a", "disk", 2)]
    assert list(boss.seen("x", SongFailed("b", "zero frames"))) == [SongFailed("b", "zero frames")]
    assert take(boss, "x") == "a"
    assert list(boss.seen("x", SongFailed("a", "disk", "h", True))) == [SongFailed("a", "disk", "h", True)]
    assert not boss.has_waiting and boss.running == 0


def test_songs_of_a_lost_worker_run_alone_next_time_and_the_guilty_one_fails() -> None:
    boss = foreman("abc")
    assert take(boss, "x") + take(boss, "x") == "ab"
    assert [type(event) for event in boss.lost("x", "killed")] == [SongRetried, SongRetried]
    assert take(boss, "x") == "c"
    assert take(boss, "x") == "", "a suspect does not join others"
    list(boss.seen("x", finished("c")))
    assert take(boss, "x") == "a" and take(boss, "x") == ""
    assert [event.song for event in boss.lost("x", "killed again")] == ["a"]
    assert take(boss, "x") == "b"
    list(boss.seen("x", finished("b")))
    assert not boss.has_waiting and boss.running == 0


def test_fail_fast_and_stop_begin_nothing_more() -> None:
    boss = foreman("ab", fail_fast=True)
    take(boss, "x")
    list(boss.seen("x", SongFailed("a", "no")))
    assert take(boss, "x") == ""
    stop = Stop()
    boss = foreman("ab", stop=stop)
    take(boss, "x")
    stop.requested = True
    assert take(boss, "x") == "" and boss.running == 1 and not stop.drops


class Script:
    """A transport whose workers behave as written: each is a generator of messages that is sent answers."""

    def __init__(self, lives: dict[str, list[Any]]) -> None:
        self.lives, self.started, self.queue, self.open = lives, list[str](), list[Any](), dict[str, Any]()
        self.closed = False

    def start(self, worker: str) -> None:
        self.started.append(worker)
        self.open[worker] = self.lives[worker].pop(0)()
        self._say(worker, next(self.open[worker]))

    def _say(self, worker: str, message: Any) -> None:
        self.queue.append((worker, message))
        while message[0] not in ("idle", "next", "lost"):
            message = next(self.open[worker])
            self.queue.append((worker, message))

    def wait(self, seconds: float) -> list[Any]:
        heard, self.queue = self.queue, []
        return heard

    def answer(self, worker: str, given: Any) -> None:
        try:
            self._say(worker, self.open[worker].send(given))
        except StopIteration:
            self.queue.append((worker, ("lost", "ended")))

    def close(self) -> None:
        self.closed = True


def good() -> Iterator[Any]:
    yield ("ready", ("cpu", "here", 1))
    given = yield ("idle", None)
    while given is not None:
        yield ("event", finished(given.request.id))
        given = yield ("idle", None)


def dies_with_a_song() -> Iterator[Any]:
    yield ("ready", ("cpu", "here", 1))
    yield ("idle", None)
    yield ("lost", "killed by SIGKILL")


def dies_at_once() -> Iterator[Any]:
    yield ("lost", "killed by SIGKILL")


def test_a_crew_replaces_a_lost_worker() -> None:
    script = Script({"x": [dies_with_a_song, good], "y": [good]})
    stop = Stop()
    events: list[Event] = list(run_crew(["x", "y"], script, foreman("abcd", stop=stop), stop))
    assert sorted(event.song for event in events if isinstance(event, SongFinished)) == list("abcd")
    assert [event.worker for event in events if isinstance(event, WorkerLost)][:1] == ["x"]
    assert script.started == ["x", "y", "x"] and script.closed


def test_a_crew_whose_workers_never_get_ready_gives_up() -> None:
    script = Script({"x": [dies_at_once, dies_at_once]})
    with pytest.raises(DeviceError, match="no worker gets ready"):
        list(run_crew(["x"], script, foreman("a"), Stop()))
    assert script.closed and script.started == ["x", "x"]
