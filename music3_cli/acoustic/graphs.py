"""The guided velocity of a window as a replayable CUDA graph: the same kernels, without the host's time for each."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch

from music3_cli.devices import capturing

Velocity = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""From latents [L, C], time token [C] and the conditions' bases [2, L, inner] to the velocity [L, C]."""

MOST_GRAPHS = 2
"""Each holds a step's activations, 0.2 to 0.4 GiB at full size."""


class VelocityGraph:
    """`compute` for inputs of one shape. What a call returns is overwritten by the next one.

    An input that is the same tensor as at the call before is not copied again: nobody may have written to it.
    """

    def __init__(self, compute: Velocity, *inputs: torch.Tensor) -> None:
        self._inputs, self._given = [each.clone() for each in inputs], inputs
        stream = torch.cuda.Stream(inputs[0].device)
        # Kernels are compiled and cuBLAS takes its workspace before a capture, not in it.
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compute(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with capturing(self._graph, stream):
            self._velocity = compute(*self._inputs)

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        for held, before, given in zip(self._inputs, self._given, inputs, strict=True):
            if given is not before:
                held.copy_(given)
        self._given = inputs
        self._graph.replay()
        return self._velocity


class VelocityGraphs:
    """The graphs of the last few ways in which windows were solved.

    Attributes:
        eager_because: why there are none where they are wanted; empty where all is well.
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._graphs: dict[Hashable, VelocityGraph] = {}
        self.eager_because = ""

    def __len__(self) -> int:
        return len(self._graphs)

    def of(self, key: Hashable, compute: Velocity, *inputs: torch.Tensor) -> Velocity:
        """A graph of `compute`, made once for a key; or `compute` itself where there can be none.

        Args:
            key: of all that a graph keeps for good.
            inputs: of the shapes that calls will have.
        """
        if not self._wanted or self.eager_because:
            return compute
        if key not in self._graphs:
            if len(self._graphs) == MOST_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            try:
                self._graphs[key] = VelocityGraph(compute, *inputs)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                self.eager_because = str(error).splitlines()[0]
                return compute
        return self._graphs[key]
