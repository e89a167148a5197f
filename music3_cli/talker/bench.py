"""How fast the talker's step is, against the reading of its weights. Measures on the device; prints nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from music3_cli.checkpoint.memory import cache_bytes, frame_bytes
from music3_cli.models.talker import Talker
from music3_cli.song.limits import FRAME_RATE
from music3_cli.talker.draws import ServerDraws
from music3_cli.talker.graphs import StepGraphs, try_capture
from music3_cli.talker.state import Slots
from music3_cli.talker.step import frame_step
from music3_cli.timing import seconds_of, wait

WARM_UP, REPEATS = 5, 40


@dataclass(frozen=True)
class TalkerTiming:
    """One measurement.

    Attributes:
        songs, context: living songs, and the position at which the last timed frame is.
        frame_ms: a step of all songs.
        real_time: seconds of sound a second, all songs together.
        limit_ms: reading weights, keys and values once at the measured bandwidth; 0 on a CPU.
        capture_s: warm-up and capture of all graphs; 0 without.
        memory_bytes: device memory that tensors take, weights included.
        kernels: launched a frame; 0 on a CPU.
    """

    songs: int
    context: int
    frame_ms: float
    real_time: float
    limit_ms: float
    capture_s: float
    memory_bytes: int
    kernels: int


def read_bandwidth(device: torch.device) -> float:
    """Bytes a second that the device reads from its memory, over 4 GiB."""
    block = torch.empty(2**31, dtype=torch.bfloat16, device=device).normal_()
    return block.nbytes / seconds_of(lambda: block.sum(), device, 10)


def measure(
    talker: Talker, songs: int, contexts: Sequence[int], cuda_graph: bool, bandwidth: float
) -> Iterator[TalkerTiming]:
    """Time the step with `songs` in as many slots, at each context."""
    device, draws = talker.head.device, ServerDraws(talker.head.dtype)
    frames = WARM_UP + REPEATS
    slots = Slots.empty(talker, songs, max(contexts) + 1, frames + 1)
    slots.cache.k_LRGPD.normal_()
    slots.cache.v_LRGPD.normal_()

    def step(view: Slots) -> None:
        frame_step(talker, view, draws)

    started = time.perf_counter()
    graphs = try_capture(step, slots) if cuda_graph and device.type == "cuda" else "not wanted"
    wait(device)
    captured = time.perf_counter() - started if isinstance(graphs, StepGraphs) else 0.0

    def run() -> None:
        graphs.replay(songs) if isinstance(graphs, StepGraphs) else step(slots)

    itemsize = talker.head.element_size()
    weights = frame_bytes(talker.backbone.config, talker.depth.config, itemsize)
    for context in contexts:
        for slot in range(songs):
            hidden_RH = torch.randn(2, talker.head.shape[1], device=device).to(talker.head.dtype)
            # A limit out of reach keeps the song alive, unless it draws its end.
            slots.admit(slot, hidden_RH, max(0, context - frames), frames + 1, slot)
        for _ in range(WARM_UP):
            run()
        seconds = seconds_of(run, device, REPEATS)
        read = weights + songs * cache_bytes(talker.backbone.config, context, itemsize)
        yield TalkerTiming(
            songs,
            context,
            seconds * 1000,
            songs / FRAME_RATE / seconds,
            read / bandwidth * 1000 if bandwidth else 0.0,
            captured,
            torch.cuda.memory_allocated(device) if device.type == "cuda" else 0,
            _kernels(run, device),
        )


def _kernels(run: Callable[[], object], device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        wait(device)
    return sum(event.count for event in profile.key_averages())
