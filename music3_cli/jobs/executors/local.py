"""Runs songs in this process, on one device."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing

from music3_cli.errors import DeviceError, Music3Error
from music3_cli.events import Event, WorkerReady
from music3_cli.jobs.engine import EngineSpec, SongEngine
from music3_cli.jobs.executors.foreman import Foreman, Stop


def run_here(spec: EngineSpec, foreman: Foreman, stop: Stop) -> Iterator[Event]:
    """Render what the foreman has.

    Raises:
        DeviceError, CheckpointError: the weights cannot be loaded.
    """
    engine = SongEngine(spec)
    yield from engine.load()
    name = spec.on.device
    yield WorkerReady(name, engine.device_name, socket.gethostname(), os.getpid())
    while foreman.has_waiting and not stop.drops:
        try:
            with closing(engine.render(foreman.hand_out(name))) as events:
                for event in events:
                    yield from foreman.seen(name, event)
                    if stop.drops:
                        break
        except Exception as error:
            if isinstance(error, Music3Error) and not isinstance(error, DeviceError):
                raise
            yield from foreman.lost(name, describe_fault(error))


def describe_fault(error: Exception) -> str:
    """An error of the machine as one line."""
    return error.message if isinstance(error, Music3Error) else f"{type(error).__name__}: {error}".splitlines()[0]
