"""The stages together: however they share the work, a song is the same bytes, and it fails alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from music3_cli.acoustic.engine import AcousticEngine, Launched, Part, Sound
from music3_cli.acoustic.windows import song_samples
from music3_cli.audio.tags import Tags
from music3_cli.audio.writer import AudioWriter
from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.errors import DeviceError, OutputError
from music3_cli.events import AcousticStarted, Event, SongFailed, TalkerFinished, TalkerStarted, Warned
from music3_cli.jobs.machine import RunsOn
from music3_cli.jobs.plan import make_plan
from music3_cli.jobs.songs import read_songs
from music3_cli.pipeline import Pipeline, RenderJob, SongRendered
from music3_cli.placement import Placement, RunLimits
from music3_cli.stages.desk import Desk
from tests.conftest import EXAMPLES

CPU = torch.device("cpu")
SECONDS = (8.4, 8.2, 0.8, 0.4)
"""Two windows, two, and two songs of one."""


def make_jobs(demo_root: Path) -> list[RenderJob]:
    """Songs of several lengths; the file of each is named after its place."""
    planned = []
    for place, seconds in enumerate(SECONDS):
        flags = {"max_duration": seconds, "steps": 1, "seed": place, "caption": "A waltz.", "title": f"song {place}"}
        songs = [
            replace(song, id=f"s{place}") for song in read_songs([str(EXAMPLES / "short-and-bare.txt")], flags, None)
        ]
        plan = make_plan(songs, open_checkpoint(demo_root), lambda: "fp32", f"s{place}.wav", "overwrite")
        planned.append(RenderJob(plan.songs[0].request, plan.songs[0].path, Tags()))
    return planned


@pytest.fixture
def jobs(demo_root: Path) -> list[RenderJob]:
    return make_jobs(demo_root)


@pytest.fixture(scope="module")
def expected(demo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The songs' bytes, rendered in one thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("expected"))
        return contents(pipeline_of(demo_root, overlap=False), make_jobs(demo_root))


def limits(jobs: list[RenderJob]) -> RunLimits:
    return RunLimits.of((len(job.request.prompt.ids), job.request.max_frames) for job in jobs)


def pipeline_of(demo_root: Path, **how: object) -> Pipeline:
    return Pipeline(open_checkpoint(demo_root), CPU, "fp32", **how)  # type: ignore[arg-type]


def contents(pipeline: Pipeline, jobs: list[RenderJob], events: list[Event] | None = None) -> dict[str, bytes]:
    for _ in pipeline.load(limits(jobs)):
        pass
    found = {}
    for event in pipeline.render(iter(jobs)):
        if events is not None:
            events.append(event)
        if isinstance(event, SongRendered):
            event.writer.commit()
            found[event.job.request.id] = event.job.path.read_bytes()
    return found


def test_the_same_bytes_however_the_work_is_shared(
    demo_root: Path, jobs: list[RenderJob], expected: dict[str, bytes]
) -> None:
    before = set(threading.enumerate())
    assert sorted(expected) == ["s0", "s1", "s2", "s3"]
    assert expected == contents(pipeline_of(demo_root, overlap=True), jobs)
    assert expected == contents(pipeline_of(demo_root, overlap=True, acoustic_devices=(CPU, CPU)), jobs[::-1])
    assert expected == contents(pipeline_of(demo_root, placement="swap"), jobs)
    assert not set(threading.enumerate()) - before
    assert not list(Path().glob(".music3-*"))


@pytest.mark.parametrize("kept", ["host", "disk"])
def test_weights_that_come_and_go_give_the_same_bytes(
    demo_root: Path, jobs: list[RenderJob], expected: dict[str, bytes], kept: str
) -> None:
    swapped = pipeline_of(demo_root, placement="swap")
    decide = swapped.decide
    swapped.decide = lambda limits: replace(decide(limits), group=2, weights_kept=kept)  # type: ignore[method-assign]
    few = jobs[1:]
    events: list[Event] = []
    assert contents(swapped, few, events) == {song: expected[song] for song in ("s1", "s2", "s3")}
    order = [event.song for event in events if isinstance(event, TalkerFinished | AcousticStarted)]
    assert order == ["s1", "s2", "s1", "s2", "s3", "s3"]  # a group's talker, then its acoustic stage


def test_windows_are_solved_before_the_talker_is_done(demo_root: Path, jobs: list[RenderJob]) -> None:
    events: list[Event] = []
    contents(pipeline_of(demo_root), jobs[:1], events)
    kinds = [type(event) for event in events if isinstance(event, TalkerFinished | AcousticStarted)]
    assert kinds == [AcousticStarted, TalkerFinished]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_job_is_asked_for_only_when_there_is_a_place(demo_root: Path, jobs: list[RenderJob], overlap: bool) -> None:
    asked: list[str] = []

    def giving() -> Iterator[RenderJob]:
        for job in jobs:
            asked.append(job.request.id)
            yield job

    pipeline = pipeline_of(demo_root, overlap=overlap)
    for _ in pipeline.load(limits(jobs)):
        pass
    for event in pipeline.render(giving()):
        if isinstance(event, TalkerStarted) and event.song == "s0":
            assert asked == ["s0"]
    assert asked == ["s0", "s1", "s2", "s3"]


@pytest.mark.parametrize("overlap", [False, True])
def test_closing_drops_what_runs_and_removes_its_file(demo_root: Path, jobs: list[RenderJob], overlap: bool) -> None:
    before = set(threading.enumerate())
    pipeline = pipeline_of(demo_root, overlap=overlap)
    for _ in pipeline.load(limits(jobs)):
        pass
    events = pipeline.render(iter(jobs))
    for event in events:
        if isinstance(event, AcousticStarted):
            break
    events.close()
    assert not set(threading.enumerate()) - before
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("overlap", [False, True])
def test_a_song_that_fails_leaves_its_slot_and_the_others_alone(
    demo_root: Path,
    jobs: list[RenderJob],
    expected: dict[str, bytes],
    overlap: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = AcousticEngine.run_windows

    def failing(self: AcousticEngine, pieces: Iterator, *args: object, **more: object) -> Iterator:
        def checked() -> Iterator:
            for window, frames in pieces:
                if args[0].talker_seed == first:  # type: ignore[attr-defined]
                    raise OutputError("no space left")
                yield window, frames

        return whole(self, checked(), *args, **more)  # type: ignore[arg-type]

    pipeline = pipeline_of(demo_root, overlap=overlap)
    first = pipeline._randomness(jobs[0].request).talker_seed  # type: ignore[attr-defined]
    monkeypatch.setattr(AcousticEngine, "run_windows", failing)
    events: list[Event] = []
    assert contents(pipeline, jobs, events) == {song: expected[song] for song in ("s1", "s2", "s3")}
    assert [event.message for event in events if isinstance(event, SongFailed)] == ["no space left"]
    if not overlap:  # it failed at its first window, and the talker did not go on to its end
        assert "s0" not in [event.song for event in events if isinstance(event, TalkerFinished)]


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the acoustic stage did, in its order: `launched 0`, `solved 0`, `written`."""
    done: list[str] = []
    run, write = AcousticEngine.run_windows, AudioWriter.write

    def running(self: AcousticEngine, *args: object, **more: object) -> Iterator[Part]:
        for part in run(self, *args, **more):  # type: ignore[arg-type]
            if isinstance(part, Launched | Sound):
                done.append(f"{'launched' if isinstance(part, Launched) else 'solved'} {part.window.index}")
            yield part

    def writing(self: AudioWriter, samples: np.ndarray) -> None:
        done.append("written")
        write(self, samples)

    monkeypatch.setattr(AcousticEngine, "run_windows", running)
    monkeypatch.setattr(AudioWriter, "write", writing)
    return done


def behind_the_talker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The acoustic stage's threads begin when all windows are known. The placement has room for all songs."""
    serve, done, told = Desk.serve, Desk.talker_is_done, threading.Event()

    def late(self: Desk, place: int, engine: AcousticEngine) -> Iterator[Event]:
        assert told.wait(60)
        yield from serve(self, place, engine)

    def tell(self: Desk) -> None:
        done(self)
        told.set()

    monkeypatch.setattr(Desk, "serve", late)
    monkeypatch.setattr(Desk, "talker_is_done", tell)


def all_at_once(demo_root: Path, job: RenderJob, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """The events of a song whose windows are all known before the first one is solved."""
    behind_the_talker(monkeypatch)
    pipeline, events = pipeline_of(demo_root, overlap=True), list[Event]()
    contents(pipeline, [job], events)
    return events


def test_a_window_is_written_while_the_next_one_is_solved(
    demo_root: Path, jobs: list[RenderJob], order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = all_at_once(demo_root, jobs[0], monkeypatch)
    rendered = [event for event in events if isinstance(event, SongRendered)]
    assert order == ["launched 0", "solved 0", "launched 1", "written", "solved 1", "written"]
    assert rendered[0].audio.samples == song_samples(210, open_checkpoint(demo_root).architecture.condition)


def test_a_file_that_fails_while_its_next_window_is_solved_ends_the_song(
    demo_root: Path, jobs: list[RenderJob], order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: AudioWriter, samples: np.ndarray) -> None:
        raise OutputError("no space left")

    monkeypatch.setattr(AudioWriter, "write", full)
    events = all_at_once(demo_root, jobs[0], monkeypatch)
    assert [event.message for event in events if isinstance(event, SongFailed)] == ["no space left"]
    assert order == ["launched 0", "solved 0", "launched 1"]
    assert list(Path().iterdir()) == []


def out_of_memory(times: int) -> Callable[[Callable], Callable]:
    """A function that runs out of memory at its first calls."""

    def around(real: Callable) -> Callable:
        left = [times]

        def failing(*args: object, **more: object) -> object:
            if left[0]:
                left[0] -= 1
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
            return real(*args, **more)

        return failing

    return around


@pytest.mark.parametrize("overlap", [False, True])
def test_out_of_memory_steps_down_and_loses_nothing(
    demo_root: Path,
    jobs: list[RenderJob],
    expected: dict[str, bytes],
    overlap: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = jobs[:3]
    real = AcousticEngine.decode
    calls = [0]

    def failing(*args: object) -> object:
        calls[0] += 1
        if calls[0] == 4:  # the second song's second window
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(AcousticEngine, "decode", failing)
    pipeline, events = pipeline_of(demo_root, overlap=overlap), list[Event]()
    assert contents(pipeline, jobs, events) == {song: expected[song] for song in ("s0", "s1", "s2")}
    rendered = [event.job.request.id for event in events if isinstance(event, SongRendered)]
    assert sorted(rendered) == ["s0", "s1", "s2"]  # s0 was finished and was not made again
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "out of memory" in warning and "by turns" in warning and "s1" in warning and "s0" not in warning
    assert pipeline.placement.kind == "swap"


@pytest.mark.parametrize("how", [{"overlap": True}, {"placement": "swap"}], ids=["threads", "swap"])
def test_a_song_that_is_solved_outlives_the_next_one_s_lack_of_memory(
    demo_root: Path,
    jobs: list[RenderJob],
    expected: dict[str, bytes],
    how: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything of the next song is launched: there was no moment yet to write the last window."""
    few = jobs[2:]
    real, calls = AcousticEngine.problem, [0]

    def failing(*args: object) -> object:
        calls[0] += 1
        if calls[0] == 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(AcousticEngine, "problem", failing)
    monkeypatch.setattr(Placement, "smaller", lambda whole: replace(whole, kind="swap", group=1, weights_kept="disk"))
    behind_the_talker(monkeypatch)
    pipeline, events = pipeline_of(demo_root, **how), list[Event]()
    decide = pipeline.decide
    pipeline.decide = lambda limits: replace(decide(limits), group=2)  # type: ignore[method-assign]
    assert contents(pipeline, few, events) == {song: expected[song] for song in ("s2", "s3")}
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert "started again: s3" in warning


def test_a_song_s_seconds_are_its_own(demo_root: Path, jobs: list[RenderJob], monkeypatch: pytest.MonkeyPatch) -> None:
    """The writing of one song does not count for another that is solved meanwhile."""
    write = AudioWriter.write

    def slow(self: AudioWriter, samples: np.ndarray) -> None:
        if "s2" in str(self.path):
            time.sleep(1)
        write(self, samples)

    monkeypatch.setattr(AudioWriter, "write", slow)
    pipeline, events = pipeline_of(demo_root, placement="swap"), list[Event]()
    decide = pipeline.decide
    pipeline.decide = lambda limits: replace(decide(limits), group=2)  # type: ignore[method-assign]
    contents(pipeline, jobs[2:], events)
    seconds = {event.job.request.id: event.acoustic_seconds for event in events if isinstance(event, SongRendered)}
    assert seconds["s2"] > 1 > seconds["s3"]


def test_out_of_memory_in_the_smallest_placement_is_the_end(
    demo_root: Path, jobs: list[RenderJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AcousticEngine, "decode", out_of_memory(2)(AcousticEngine.decode))
    with pytest.raises(DeviceError, match="out of memory"):
        contents(pipeline_of(demo_root), jobs[2:])
    assert list(Path().iterdir()) == []


def test_too_little_memory_is_said_before_loading(demo_root: Path, jobs: list[RenderJob]) -> None:
    with pytest.raises(DeviceError, match="are needed in the smallest plan") as refused:
        next(pipeline_of(demo_root, memory_limit=2**20).load(limits(jobs)))
    assert refused.value.exit_code == 6
    shown = RunsOn("cpu").nominal_placement(open_checkpoint(demo_root)).text
    assert shown.startswith("both stages on cpu: talker")
