"""A worker's side: one engine that asks for songs and tells what happens to them, through whatever channel."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import chain
from typing import Any, Protocol

from music3_cli.errors import Music3Error
from music3_cli.jobs.engine import EngineSpec, SongEngine
from music3_cli.jobs.executors.local import describe_fault
from music3_cli.jobs.plan import PlannedSong

Message = tuple[str, Any]
"""What a worker tells: `event` with an event, `ready` with its device's name, its machine and process, `refused` with
the error that keeps it from working, `lost` with a fault's text, after which it ends; and what it asks: `next` (a song
to run beside others) and `idle` (a song; the answer may take its time, and None sends it home).
"""


class BatchGone(Exception):
    """Nobody is at the channel's other end any more."""


class Channel(Protocol):
    """To the batch. Both methods raise `BatchGone`, unless the batch's end is the worker's, as on Ray."""

    def send(self, message: Message) -> None: ...

    def ask(self, question: str) -> PlannedSong | None: ...


def serve(spec: EngineSpec, channel: Channel) -> None:
    """Work until there is nothing left to do, or nobody to do it for."""
    try:
        _work(spec, channel)
    except BatchGone:
        return


def _work(spec: EngineSpec, channel: Channel) -> None:
    try:
        engine = SongEngine(spec)
        for event in engine.load():
            channel.send(("event", event))
    except Music3Error as error:
        channel.send(("refused", error))
        return
    channel.send(("ready", (engine.device_name, socket.gethostname(), os.getpid())))
    try:
        while (song := channel.ask("idle")) is not None:
            for event in engine.render(chain((song,), _more(channel))):
                channel.send(("event", event))
    except BatchGone:
        raise
    except Exception as error:
        # A device that failed once may be of no use to this process; a new one will tell.
        channel.send(("lost", describe_fault(error)))


def _more(channel: Channel) -> Iterator[PlannedSong]:
    while (song := channel.ask("next")) is not None:
        yield song
