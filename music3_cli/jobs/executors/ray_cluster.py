"""An engine actor a GPU on a Ray cluster. All machines see the same folders and have the same music3."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from music3_cli import __version__
from music3_cli.errors import DeviceError, UsageError
from music3_cli.jobs.engine import EngineSpec
from music3_cli.jobs.executors.worker import Message, serve
from music3_cli.jobs.plan import PlannedSong


class RayCluster:
    """Workers as actors.

    Args:
        address: of a running cluster; None to start one on this machine.

    Raises:
        UsageError: ray is not installed.
        DeviceError: no cluster at the address.
    """

    def __init__(self, spec: EngineSpec, address: str | None) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError(
                "--executor ray: ray is not installed", hint="Install it: pip install 'music3[ray]'."
            ) from None
        self._ray: Any = ray
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = f"--ray-address {address}" if address else "--executor ray"
            raise DeviceError(
                f"{where}: no cluster ({str(error).splitlines()[0]})", hint="Start one with `ray start --head`."
            ) from None
        finally:
            signal.signal(signal.SIGTERM, handler)  # ray puts its own there, which would end the batch at once
        self._spec = replace(spec, threads=_threads() if spec.on.device == "cpu" else 0)
        self._broker: Any = ray.remote(num_cpus=0)(_Broker).remote()
        self._starts = 0
        self._names: dict[str, str] = {}  # an actor's own name -> worker
        self._actors: dict[str, Any] = {}
        self._ends: dict[Any, str] = {}

    def workers(self, devices: Sequence[str]) -> list[str]:
        """Names: one for each of several devices, else one for each GPU of the cluster.

        Raises:
            DeviceError: it has no GPU.
        """
        count = len(devices)
        if count == 1 and self._spec.on.device != "cpu":
            count = int(self._ray.cluster_resources().get("GPU", 0))
        if not count:
            self.close()
            raise DeviceError("the Ray cluster has no GPU", hint="Add machines with GPUs, or use --device cpu.")
        return [f"ray-{number}" for number in range(1, count + 1)]

    def start(self, worker: str) -> None:
        self._starts += 1
        name = f"{worker}#{self._starts}"  # what is left in the broker for a lost one must not reach the next
        needs = {"num_cpus": 1} if self._spec.on.device == "cpu" else {"num_cpus": 1, "num_gpus": 1}
        actor = self._ray.remote(_Actor).options(**needs).remote()
        self._names = {key: other for key, other in self._names.items() if other != worker} | {name: worker}
        self._actors[name] = actor
        end = actor.work.remote(name, self._spec, self._broker, str(Path.cwd()), __version__)
        self._ends[end] = name

    def wait(self, seconds: float) -> Sequence[tuple[str, Message]]:
        ended, _ = self._ray.wait(list(self._ends), num_returns=len(self._ends), timeout=0) if self._ends else ([], [])
        # What an actor told before it ended comes first.
        told: list[tuple[str, Message]] = self._ray.get(self._broker.heard.remote(0.0 if ended else seconds))
        heard = [(self._names[name], message) for name, message in told if name in self._names]
        # Who told that it is lost is not lost once more when its actor ends.
        told_lost = {name for name, (kind, _) in told if kind == "lost"}
        for end in ended:
            name = self._ends.pop(end)
            try:
                self._ray.get(end)
                message = "its actor ended"
            except Exception as error:  # ray's own, of many kinds
                message = str(error).splitlines()[0]
            if (worker := self._names.pop(name, None)) is not None and name not in told_lost:
                heard.append((worker, ("lost", message)))
        return heard

    def answer(self, worker: str, song: PlannedSong | None) -> None:
        for name, other in self._names.items():
            if other == worker:
                self._ray.get(self._broker.answer.remote(name, song))

    def close(self) -> None:
        self._ray.shutdown()


class _Broker:
    """Carries messages between actors and the batch."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[tuple[str, Message]] = asyncio.Queue()
        self._answers: defaultdict[str, asyncio.Queue[PlannedSong | None]] = defaultdict(asyncio.Queue)

    async def tell(self, name: str, message: Message) -> None:
        await self._told.put((name, message))

    async def ask(self, name: str, question: str) -> PlannedSong | None:
        await self._told.put((name, (question, None)))
        return await self._answers[name].get()

    async def answer(self, name: str, song: PlannedSong | None) -> None:
        await self._answers[name].put(song)

    async def heard(self, seconds: float) -> list[tuple[str, Message]]:
        found = []
        try:
            found.append(await asyncio.wait_for(self._told.get(), seconds or 0.01))
        except (asyncio.TimeoutError, TimeoutError):
            return found
        while not self._told.empty():
            found.append(self._told.get_nowait())
        return found


class _Actor:
    def work(self, name: str, spec: EngineSpec, broker: Any, folder: str, version: str) -> None:
        import ray

        channel = _RayChannel(ray, broker, name)
        host = socket.gethostname()
        if version != __version__:
            error = DeviceError(
                f"{host} has music3 {__version__}; the batch has {version}", hint="Install one version."
            )
            return channel.send(("refused", error))
        if not Path(folder).is_dir():
            error = DeviceError(
                f"{host}: no folder {folder}", hint="Start the batch in a folder that all machines see."
            )
            return channel.send(("refused", error))
        os.chdir(folder)
        serve(spec, channel)


class _RayChannel:
    def __init__(self, ray: Any, broker: Any, name: str) -> None:
        self._ray, self._broker, self._name = ray, broker, name

    def send(self, message: Message) -> None:
        self._ray.get(self._broker.tell.remote(self._name, message))

    def ask(self, question: str) -> PlannedSong | None:
        song: PlannedSong | None = self._ray.get(self._broker.ask.remote(self._name, question))
        return song


def _threads() -> int:
    """torch's own number here; ray gives its actors one, and sums of other parts round differently."""
    import torch

    return torch.get_num_threads()
