"""The step as a replayable CUDA graph, one for every number of slots that a step may have."""

from __future__ import annotations

from collections.abc import Callable

import torch

from music3_cli.devices import URGENT, capturing
from music3_cli.talker.state import Slots

BUCKETS = (1, 2, 4, 8, 16, 32)
"""Songs of a step: the smallest that covers the highest slot in use is run."""
WARM_UPS = 3


def bucket_of(slots: int, room: int) -> int:
    """The smallest bucket that covers `slots`, at most `room`."""
    return next((size for size in BUCKETS if size >= slots and size <= room), room)


class StepGraphs:
    """Captured steps over the first b slots, for every bucket up to the slots at hand.

    Captured largest first into one pool, so that the smaller ones find their memory in it. Static inputs are the slots'
    own tensors; a graph has no outputs.
    """

    def __init__(self, step: Callable[[Slots], None], slots: Slots) -> None:
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        pool = torch.cuda.graph_pool_handle()
        sizes = sorted({bucket_of(count, slots.count) for count in range(1, slots.count + 1)}, reverse=True)
        stream = torch.cuda.Stream(priority=URGENT)  # kernels keep the priority with which they were captured
        for size in sizes:
            view = slots.first(size)
            # Kernels are compiled and cuBLAS takes its workspace before a capture, not in it.
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(WARM_UPS):
                    step(view)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with capturing(graph, stream, pool):
                step(view)
            self._graphs[size] = graph
        slots.clear()

    def replay(self, size: int) -> None:
        self._graphs[size].replay()


def try_capture(step: Callable[[Slots], None], slots: Slots) -> StepGraphs | str:
    """Graphs, or the reason why there are none: the step then runs eagerly."""
    try:
        return StepGraphs(step, slots)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        slots.clear()
        return str(error).splitlines()[0]
