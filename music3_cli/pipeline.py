"""The only file that knows every stage: requests in, events and written files out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice

import torch

from music3_cli.acoustic.engine import AcousticEngine
from music3_cli.acoustic.precision import precision_on
from music3_cli.checkpoint import load
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.memory import ACOUSTIC, TALKER, sizes
from music3_cli.devices import DTYPES, URGENT, device_memory, device_name, limit_memory, on_device, true_fp32
from music3_cli.errors import DeviceError
from music3_cli.events import (
    Event,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    PlacementChosen,
    SongFailed,
    TalkerFinished,
    TalkerProgress,
    TalkerStarted,
    Warned,
)
from music3_cli.models.acoustic import AcousticModels
from music3_cli.models.talker import Talker
from music3_cli.placement import Machine, Placement, RunLimits, decide, host_memory
from music3_cli.randomness import ForcedRandomness, SongRandomness, song_randomness
from music3_cli.song.request import SongRequest
from music3_cli.stages.desk import Desk
from music3_cli.stages.sounding import RenderJob, SongRendered
from music3_cli.stages.threads import merged
from music3_cli.stages.weights import T, Weights, give_back
from music3_cli.talker.engine import TalkerEngine, most_slots
from music3_cli.talker.song import TalkerSong
from music3_cli.talker.state import RING

__all__ = ["Pipeline", "RenderJob", "SongRendered"]

FRAMES_AN_EVENT = 5
WAITING_SONGS = 1
"""Songs that may wait for the acoustic stage besides those in the talker's slots."""


class Pipeline:
    """Both stages, on the devices and in the way that one placement decides.

    Args:
        device: the talker's.
        talker_dtype: what the talker computes in.
        acoustic_devices: of the acoustic stage; by default the talker's.
        talker_weights: `full` or `int8`.
        placement: `auto`, or `resident` or `swap` where the user wants that.
        memory_limit: bytes of each device that may be used; None for all that is free.
        overlap: whether the stages work at the same time, in threads; by default where that gains something.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        talker_dtype: str,
        cuda_graph: bool = True,
        *,
        acoustic_devices: Sequence[torch.device] = (),
        talker_weights: str = "full",
        placement: str = "auto",
        memory_limit: int | None = None,
        overlap: bool | None = None,
    ) -> None:
        self.cuda_graph = cuda_graph
        self.checkpoint, self.device, self.dtype = checkpoint, device, DTYPES[talker_dtype]
        self.acoustic_devices = tuple(acoustic_devices) or (device,)
        self.device_name = device_name(device)
        self._weights, self._wanted, self._memory_limit = talker_weights, placement, memory_limit
        # The arithmetic of float32 products is set for the whole process: a talker that has such products and an
        # acoustic stage that may want TF32 take turns. A talker in bf16 has none, whatever is set.
        self._overlap = overlap if overlap is not None else device.type == "cuda" and self.dtype != torch.float32

    def decide(self, limits: RunLimits) -> Placement:
        """Where everything would go now.

        Raises:
            DeviceError: nothing fits.
        """
        needed = sizes(self.checkpoint.components, self.checkpoint.architecture, self.dtype.itemsize, RING + 1)
        acoustic = tuple(device_memory(device, self._memory_limit) for device in self.acoustic_devices)
        talker = device_memory(self.device, self._memory_limit)
        rounds_tf32 = any(precision_on("tf32", device).dtypes.tf32_matrices for device in self.acoustic_devices)
        machine = Machine(talker, acoustic, host_memory()[0], most_slots(self.device), rounds_tf32)
        return decide(needed, limits, machine, self._weights, self._wanted)

    def load(self, limits: RunLimits) -> Iterator[Event]:
        """Decide what goes where, and read the weights.

        Args:
            limits: what the songs of `render` need at most.

        Raises:
            DeviceError: not enough memory.
        """
        self.limits = limits
        for device in {self.device, *self.acoustic_devices}:
            if self._memory_limit is not None:
                limit_memory(device, self._memory_limit)
        self.placement = self.decide(limits)
        yield PlacementChosen(self.placement.text, self.placement.to_json())
        with _memory_errors(self.device):
            yield from self._load(self.placement)

    def render(self, jobs: Iterable[RenderJob]) -> Generator[Event]:
        """Render songs; a song that fails gives a `SongFailed` and does not stop the others.

        Args:
            jobs: taken in their order, each only when the talker has a place for it, so they may be made while others
                run; maybe from another thread, but from one at a time. They keep to the limits of `load`. Longest first
                leaves the fewest places empty.

        Yields:
            progress, and a `SongRendered` for every song that is whole. Closing the iterator drops the songs that are
            not and removes their files.

        Raises:
            DeviceError: out of memory with the smallest placement.
        """
        source = _Source(jobs)
        with nullcontext() if self._overlap else true_fp32():
            while True:
                try:
                    yield from self._attempt(source)
                    return
                except torch.OutOfMemoryError as error:
                    reason = str(error).splitlines()[0]
                smaller = self.placement.smaller()
                if smaller is None:
                    raise _out_of_memory(self.device, reason)
                again = source.again()
                yield Warned(
                    f"out of memory ({reason}); going on with less: {smaller.text}"
                    + (f"; started again: {', '.join(job.request.id for job in again)}" if again else "")
                )
                with _memory_errors(self.device):
                    yield from self._step_down(smaller)

    def peak_device_bytes(self) -> int:
        """The most memory that tensors took so far, of the device that took most; 0 on a CPU."""
        devices = {device for device in (self.device, *self.acoustic_devices) if device.type == "cuda"}
        return max((torch.cuda.max_memory_allocated(device) for device in devices), default=0)

    def _load(self, placement: Placement) -> Iterator[Event]:
        """Make the stages' weights known, and read those that are kept."""
        kept, dtype = placement.weights_kept, self.dtype

        def read_talker(device: torch.device, progress: load.Progress) -> Talker:
            return load.load_talker(self.checkpoint, device, dtype, progress, placement.talker_weights == "int8")

        def read_acoustic(device: torch.device, progress: load.Progress) -> AcousticModels:
            product = torch.float16 if placement.acoustic_weights == "fp16" else torch.float32
            return load.load_acoustic(self.checkpoint, device, dtype, progress, product)

        self._talker_weights = Weights(read_talker, self.device, kept)
        self._acoustic_weights = [Weights(read_acoustic, device, kept) for device in self.acoustic_devices]
        if kept == "disk":
            return
        devices = dict.fromkeys((self.device, *self.acoustic_devices))
        components = self.checkpoint.components
        a_copy = sum(components[part].file_bytes for part in ACOUSTIC)
        total = self.checkpoint.weight_bytes + a_copy * (len(self.acoustic_devices) - 1)
        started, done = time.perf_counter(), 0
        yield LoadStarted(self.checkpoint.name, f"{', '.join(map(str, devices))} ({self.device_name})", total)

        def progress(count: int) -> None:
            nonlocal done
            done = min(total, done + count)

        self._talker_weights.load(progress)
        yield LoadProgress(done, total)
        for weights in self._acoustic_weights:
            weights.load(progress)
            yield LoadProgress(done, total)
        for device in devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)  # threads have streams of their own
        yield LoadFinished(time.perf_counter() - started)

    def _attempt(self, source: _Source) -> Iterator[Event]:
        """All songs that are left, with the placement as it is."""
        limit = self.placement.group or self.placement.songs
        most = min(self.limits.songs, limit) + WAITING_SONGS
        desk = Desk(self.checkpoint.architecture, self.acoustic_devices, most)
        run = (
            self._by_turns if self.placement.kind == "swap" else self._side_by_side if self._overlap else self._in_line
        )
        events = run(source, desk)
        try:
            for event in events:
                if isinstance(event, SongRendered | SongFailed):
                    source.done(event.job.request.id if isinstance(event, SongRendered) else event.song)
                yield event
                if isinstance(event, SongRendered):
                    desk.settle(event.job.request.id)
        finally:
            events.close()
            desk.close()
            for device in dict.fromkeys((self.device, *self.acoustic_devices)):
                give_back(device)  # threads had streams of their own, and torch keeps memory by stream

    def _in_line(self, source: _Source, desk: Desk) -> Generator[Event]:
        """One thread: whenever a window is known, it is solved before the talker goes on."""
        engines = self._engines()
        for event in self._talk(self._talker_weights.take(), source, desk):
            yield event
            for place, engine in enumerate(engines):
                yield from desk.work(place, engine)

    def _side_by_side(self, source: _Source, desk: Desk) -> Generator[Event]:
        """The talker and every acoustic device in threads of their own."""
        talker = self._talker_weights.take()
        sides = [partial(desk.serve, place, engine) for place, engine in enumerate(self._engines())]
        yield from merged([partial(self._talk, talker, source, desk, own_stream=True), *sides], desk.stop)

    def _by_turns(self, source: _Source, desk: Desk) -> Generator[Event]:
        """The talker for a group of songs, then the acoustic stage for the same."""

        def talk(talker: Talker) -> Iterator[Event]:
            return self._talk(talker, islice(source, self.placement.group), desk)

        def work(models: AcousticModels) -> Iterator[Event]:
            return desk.work(0, self._engine(models))

        while source.has_more():
            yield from self._turn(self._talker_weights, TALKER, talk)
            yield from self._turn(self._acoustic_weights[0], ACOUSTIC, work)

    def _turn(self, weights: Weights[T], parts: Sequence[str], work: Callable[[T], Iterator[Event]]) -> Iterator[Event]:
        """One stage's work, with its weights on the device only for that."""
        total = sum(self.checkpoint.components[part].file_bytes for part in parts)
        if self.placement.weights_kept == "disk":
            yield LoadStarted(self.checkpoint.name, f"{self.device} ({self.device_name})", total)
        started = time.perf_counter()
        module = weights.take()
        yield LoadFinished(time.perf_counter() - started)
        yield from work(module)
        del module
        give_back(self.device)

    def _engines(self) -> list[AcousticEngine]:
        return [self._engine(weights.take()) for weights in self._acoustic_weights]

    def _engine(self, models: AcousticModels) -> AcousticEngine:
        return AcousticEngine(
            models.condition, models.transformer, models.vocoder, self.cuda_graph, self.limits.tf32 == "all"
        )

    def _talk(
        self, talker: Talker, jobs: Iterator[RenderJob], desk: Desk, own_stream: bool = False
    ) -> Generator[Event]:
        """The talker's side: songs begin, their news go to the desk.

        Its many small kernels go before those of an acoustic stage beside it: each waits for a place among large ones.
        """
        by_id: dict[str, RenderJob] = {}
        swapped = self.placement.kind == "swap"
        engine = TalkerEngine(talker, self.cuda_graph, hiddens_on_host=swapped)

        def songs() -> Iterator[TalkerSong]:
            for job in jobs:
                by_id[job.request.id] = job
                yield self._song(job.request)

        warned = False
        with on_device(self.device, own_stream, URGENT):
            for song in engine.run(songs(), self.placement.songs, self.limits, desk.has_room):
                if (job := by_id.pop(song.id, None)) is not None:
                    if engine.eager_because and not warned:
                        warned = True
                        yield Warned(f"the talker runs without CUDA graphs, slower: {engine.eager_because}")
                    desk.open(job, song)
                    yield TalkerStarted(song.id, len(song.ids), song.max_frames)
                desk.tell(song)
                if song.finish_reason:
                    yield TalkerFinished(song.id, song.frames, song.finish_reason, song.seconds)
                elif song.frames and song.frames % FRAMES_AN_EVENT == 0:
                    yield TalkerProgress(song.id, song.frames, song.max_frames)
        desk.talker_is_done()

    def _step_down(self, smaller: Placement) -> Iterator[Event]:
        """Another placement; weights that it does not keep are given back."""
        moved = smaller.kind != self.placement.kind
        self.placement = smaller
        if moved:
            del self._talker_weights, self._acoustic_weights
        give_back(self.device)
        if moved:
            yield from self._load(smaller)

    def _song(self, request: SongRequest) -> TalkerSong:
        return TalkerSong(
            request.id,
            request.prompt.ids,
            request.prompt.unconditional_ids,
            request.max_frames,
            self._randomness(request),
            request.codes,
            request.exact,
        )

    def _randomness(self, request: SongRequest) -> SongRandomness:
        vocabulary = self.checkpoint.architecture.backbone.vocab_size
        own = song_randomness(request.seed_scheme, request.seed, vocabulary, request.noise_seed)
        if request.codes is None:
            return own
        state = request.codes.noise_state
        if request.noise_seed != request.codes.record["settings"].get("noise_seed"):
            state = None  # it belongs to the first render's noise
        return ForcedRandomness(request.codes.steps_FC.tolist(), own, None if state is None else state.tobytes())


class _Source:
    """Jobs in their order. Those that were given out and came to nothing can be given out again."""

    def __init__(self, jobs: Iterable[RenderJob]) -> None:
        self._jobs, self._first = iter(jobs), deque[RenderJob]()
        self._out: dict[str, RenderJob] = {}

    def __iter__(self) -> _Source:
        return self

    def __next__(self) -> RenderJob:
        job = self._first.popleft() if self._first else next(self._jobs)
        self._out[job.request.id] = job
        return job

    def has_more(self) -> bool:
        if not self._first and (job := next(self._jobs, None)) is not None:
            self._first.append(job)
        return bool(self._first)

    def done(self, song: str) -> None:
        """Rendered or failed: not to be given out again."""
        self._out.pop(song, None)

    def again(self) -> list[RenderJob]:
        """The jobs that were given out and are not done; they come next."""
        jobs = list(self._out.values())
        self._first.extendleft(reversed(jobs))
        self._out.clear()
        return jobs


def _out_of_memory(device: torch.device, reason: str) -> DeviceError:
    memory = device_memory(device)
    return DeviceError(
        f"device {device}: out of memory ({memory.free / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free): {reason}",
        hint="End other programs on this device, or render shorter songs (--max-duration).",
    )


@contextmanager
def _memory_errors(device: torch.device) -> Iterator[None]:
    """torch's out-of-memory as ours."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise _out_of_memory(device, str(error).splitlines()[0]) from None
