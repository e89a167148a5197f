"""A process a device on this machine. A process that dies takes nothing with it; this one's death ends them all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from music3_cli.jobs.engine import EngineSpec
from music3_cli.jobs.executors.worker import BatchGone, Message, serve
from music3_cli.jobs.plan import PlannedSong

END_SECONDS = 5.0


class Processes:
    """Workers as child processes.

    Args:
        devices: worker -> device.
    """

    def __init__(self, spec: EngineSpec, devices: Mapping[str, str]) -> None:
        self._spec, self._devices = spec, devices
        # A forked process cannot use a GPU that its parent has touched.
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[str, tuple[BaseProcess, Connection]] = {}

    def start(self, worker: str) -> None:
        self._forget(worker)
        ours, theirs = self._context.Pipe()
        spec = replace(self._spec, on=replace(self._spec.on, device=self._devices[worker]))
        process = self._context.Process(target=_main, args=(spec, theirs), name=f"music3 {worker}", daemon=True)
        process.start()
        theirs.close()
        self._workers[worker] = process, ours

    def wait(self, seconds: float) -> Sequence[tuple[str, Message]]:
        names = {connection: worker for worker, (_, connection) in self._workers.items()}
        heard: list[tuple[str, Message]] = []
        for connection in wait(list(names), seconds):
            assert isinstance(connection, Connection)
            worker = names[connection]
            try:
                heard.append((worker, connection.recv()))
            except (EOFError, OSError):
                process = self._forget(worker)
                heard.append((worker, ("lost", _end_of(process))))
        return heard

    def answer(self, worker: str, song: PlannedSong | None) -> None:
        if worker in self._workers:
            try:
                self._workers[worker][1].send(song)
            except OSError:
                return  # it has died; the next wait says so

    def close(self) -> None:
        for process, connection in self._workers.values():
            connection.close()
            process.join(0.5)
            process.terminate()
        for worker in list(self._workers):
            self._forget(worker)

    def _forget(self, worker: str) -> BaseProcess | None:
        if worker not in self._workers:
            return None
        process, connection = self._workers.pop(worker)
        connection.close()
        process.join(END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        return process


def _end_of(process: BaseProcess | None) -> str:
    code = process.exitcode if process is not None else None
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"


class PipeChannel:
    """A worker's end of a pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: Message) -> None:
        try:
            self._connection.send(message)
        except OSError:
            raise BatchGone from None

    def ask(self, question: str) -> PlannedSong | None:
        self.send((question, None))
        try:
            song: PlannedSong | None = self._connection.recv()
        except (EOFError, OSError):
            raise BatchGone from None
        return song


def _main(spec: EngineSpec, connection: Connection) -> None:
    # Ctrl-C at a terminal and its loss reach every process; the batch decides what they mean.
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    serve(spec, PipeChannel(connection))


def _die_with_parent() -> None:
    """A batch that was killed holds its folder no more: nobody may go on writing there."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
