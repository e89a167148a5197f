"""Carries a batch out: the folder is locked, leftovers of dead runs go, songs are rendered, record and page written."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from music3_cli.errors import Music3Error, OutputError, UsageError
from music3_cli.events import (
    BatchStarted,
    Event,
    Note,
    PageWritten,
    RunFinished,
    SongFailed,
    SongFinished,
    SongKept,
    SongSkipped,
    Stopping,
    Warned,
)
from music3_cli.jobs.batch.leftovers import remove_leftovers
from music3_cli.jobs.batch.lock import folder_lock
from music3_cli.jobs.batch.plan import BatchPlan
from music3_cli.jobs.batch.record import Outcomes, write_record
from music3_cli.jobs.engine import EngineSpec
from music3_cli.jobs.executors.foreman import Foreman, Stop
from music3_cli.jobs.machine import RunsOn
from music3_cli.jobs.page import write_page
from music3_cli.jobs.plan import OVERWRITES, PlannedSong, longest_first
from music3_cli.jobs.run import check_writable_folder
from music3_cli.jobs.sidecar import has_codes, is_done

EXECUTORS = ("local", "ray")


@dataclass(frozen=True)
class How:
    """How a batch runs.

    Attributes:
        devices: as `--device` takes them; several have a process each.
        on: all else about them.
        executor: `local` or `ray`.
        ray_address: of a running cluster.
        retries: after faults of the machine.
        fail_fast: begin no song after one has failed.
    """

    devices: Sequence[str] = ("auto",)
    executor: str = "local"
    ray_address: str | None = None
    on: RunsOn = RunsOn()
    retries: int = 1
    fail_fast: bool = False

    @property
    def first(self) -> RunsOn:
        """The first device, which stands for all in a plan."""
        return replace(self.on, device=self.devices[0])

    def check_devices(self) -> None:
        """Look for every device before anything begins; those of a Ray cluster are not here.

        Raises:
            DeviceError: one is unknown, or not there.
        """
        if self.executor == "ray":
            from music3_cli.devices import named_device

            acoustic = self.on.acoustic_device
            for name in self.devices:
                named_device(name)
            for name in acoustic.split(",") if acoustic not in ("same", "auto") else ():
                named_device(name.strip(), "acoustic device")
            return
        for name in self.devices:
            replace(self.on, device=name).devices()


def run_batch(plan: BatchPlan, how: How, stop: Stop) -> Generator[Event, None, None]:
    """Render what the plan says.

    Args:
        stop: set by whoever wants the batch to end early.

    Yields:
        events, the last one a `RunFinished`.

    Raises:
        FolderInUseError: another run holds the folder.
        OutputError, DeviceError, CheckpointError: nothing (more) can be rendered; what is finished is recorded.
    """
    started = time.perf_counter()
    check_writable_folder(plan.folder)
    with folder_lock(plan.folder, plan.shard):
        plan = _as_it_is_now(plan)
        outcomes, code = Outcomes(kept={song.request.id for song in plan.kept}), 1
        if removed := remove_leftovers(plan.folder, plan.takes, plan.shard.is_whole):
            yield Note(f"removed {removed} unfinished file{'s' * (removed > 1)} of a run that was killed")
        try:
            yield from _told_before(plan, how)
            told = False
            with closing(_rendered(plan, how, stop)) as events:
                for event in events:
                    if isinstance(event, SongFinished):
                        outcomes.finished[event.song] = event
                    elif isinstance(event, SongFailed):
                        outcomes.failed[event.song] = event
                    if stop.requested and not told:
                        told = True
                        yield Stopping(stop.mode)
                    yield event
            code = 130 if stop.requested else 3 if outcomes.failed or plan.unusable or plan.faults else 0
        except Music3Error as error:
            code = error.exit_code
            raise
        except GeneratorExit:  # whoever takes the events was interrupted
            code = 130
            raise
        finally:
            remove_leftovers(plan.folder, plan.takes, plan.shard.is_whole)
            seconds = time.perf_counter() - started
            last = _finish(plan, outcomes, seconds, code)
        yield from last
    counts = (len(outcomes.finished), len(outcomes.kept), len(outcomes.failed) + len(plan.unusable))
    yield RunFinished(*counts, outcomes.audio_seconds, seconds, code)


def _as_it_is_now(plan: BatchPlan) -> BatchPlan:
    """Songs that another run has finished since the plan was made are kept."""
    digest = plan.checkpoint.digest

    def now(song: PlannedSong) -> PlannedSong:
        if song.action == "keep" or song.reason == OVERWRITES or not is_done(song.path, song.request.key(digest)):
            return song
        if has_codes(song.path) or not song.keep_codes:
            return replace(song, action="keep", reason="finished meanwhile")
        return song

    return replace(plan, songs=tuple(now(song) if isinstance(song, PlannedSong) else song for song in plan.songs))


def _told_before(plan: BatchPlan, how: How) -> Iterator[Event]:
    to_render = plan.to_render
    frames = sum(song.request.max_frames for song in to_render)
    counts = (len(to_render), len(plan.kept), len(plan.unusable))
    yield BatchStarted(str(plan.folder), *counts, frames, len(how.devices))
    for note in plan.notes:
        yield Note(note)
    for warning in plan.warnings:
        yield Warned(warning)
    for fault in plan.faults:
        yield Warned(f"left out: {fault.message}")
    for song in plan.unusable:
        yield SongSkipped(song.id, "; ".join(error.message for error in song.errors))
    for kept in plan.kept:
        yield SongKept(kept.request.id, str(kept.path))


def _rendered(plan: BatchPlan, how: How, stop: Stop) -> Generator[Event, None, None]:
    """The events of the chosen executor."""
    songs = longest_first(plan.to_render)
    if not songs or stop.requested:
        return
    for folder in sorted({song.path.parent for song in songs}):
        check_writable_folder(folder)
    foreman = Foreman(songs, how.retries, how.fail_fast, stop)
    spec = EngineSpec.for_songs(songs, plan.checkpoint, how.first)
    if how.executor == "ray":
        from music3_cli.jobs.executors.crew import run_crew
        from music3_cli.jobs.executors.ray_cluster import RayCluster

        cluster = RayCluster(spec, how.ray_address)
        yield from run_crew(cluster.workers(how.devices), cluster, foreman, stop)
    elif len(how.devices) > 1:
        from music3_cli.jobs.executors.crew import run_crew
        from music3_cli.jobs.executors.processes import Processes

        workers = _worker_names(how.devices)
        yield from run_crew(list(workers), Processes(spec, workers), foreman, stop)
    else:
        from music3_cli.jobs.executors.local import run_here

        yield from run_here(spec, foreman, stop)


def _worker_names(devices: Sequence[str]) -> dict[str, str]:
    """Worker -> device: `cuda:1`, and `cpu-2` for the second worker of one device."""
    names: dict[str, str] = {}
    for device in devices:
        number = sum(other == device for other in names.values()) + 1
        names[device if number == 1 else f"{device}-{number}"] = device
    return names


def _finish(plan: BatchPlan, outcomes: Outcomes, seconds: float, exit_code: int) -> list[Event]:
    """After every run, interrupted ones too: the record and, of the whole batch, the page.

    Returns:
        what is to be told about it.
    """
    record = write_record(plan, outcomes, seconds, exit_code)
    if not plan.shard.is_whole:
        return []
    try:
        return [PageWritten(str(write_page(plan.folder, record)))]
    except OutputError as error:  # the songs are there all the same
        return [Warned(f"no audition page: {error.message}")]


def check_how(how: How) -> None:
    """Raise `UsageError` for what does not go together."""
    if how.executor not in EXECUTORS:
        raise UsageError(f"--executor {how.executor}: one of {', '.join(EXECUTORS)} was expected")
    if how.ray_address is not None and how.executor != "ray":
        raise UsageError("--ray-address goes with --executor ray only")
    if "auto" in how.devices and len(how.devices) > 1:
        raise UsageError("--devices: name each device, such as cuda:0,cuda:1")
    if {"cpu", "cuda"} <= {device.partition(":")[0] for device in how.devices}:
        raise UsageError(
            f"--devices {','.join(how.devices)}: devices of one kind were expected; a song's samples depend on the "
            "kind, and any of them may get any song"
        )
    if len(how.devices) > 1 and how.on.acoustic_device != "same":
        raise UsageError("--devices and --acoustic-device: each of several engines has both stages on its own device")
    gpus = ["cuda:0" if device == "cuda" else device for device in how.devices if device != "cpu"]
    if len(set(gpus)) < len(gpus):
        raise UsageError(f"--devices {','.join(how.devices)}: a GPU stands twice, and one engine fills it")
