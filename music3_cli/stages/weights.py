"""Networks that are on a device only while they are wanted; between two uses they wait on the host, or on disk."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import nn

from music3_cli.checkpoint.load import Progress, no_progress

T = TypeVar("T", bound=nn.Module)


class Weights(Generic[T]):
    """One stage's networks.

    Args:
        read: reads them from disk onto a device.
        device: where they work.
        kept: where they are when nobody uses them: `device`, `host` or `disk`.
    """

    def __init__(self, read: Callable[[torch.device, Progress], T], device: torch.device, kept: str) -> None:
        self._read, self._device, self._kept = read, device, kept
        self._module: T | None = None

    @torch.inference_mode()
    def load(self, progress: Progress) -> None:
        """Read what is kept, so that the first use need not."""
        if self._module is None and self._kept != "disk":
            self._module = self._read(self._device if self._kept == "device" else torch.device("cpu"), progress)
            if self._kept == "host":
                _pin(self._module)

    @torch.inference_mode()
    def take(self, progress: Progress = no_progress) -> T:
        """The networks on their device. Unless they are kept there, they are gone once the caller lets go of them."""
        self.load(progress)
        if self._module is None:
            return self._read(self._device, progress)
        return self._module if self._kept == "device" else _copy_to(self._module, self._device)


def give_back(device: torch.device) -> None:
    """Let go of what nobody holds any more: graphs and activations live in reference cycles and in torch's own pool."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _pin(module: nn.Module) -> None:
    """Page-locked host memory, which a GPU reads at full speed, where the system gives it."""
    if not torch.cuda.is_available():
        return
    try:
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.data = tensor.data.pin_memory()
    except RuntimeError:
        return  # a limit on locked memory: plain memory does it too, slower


def _copy_to(module: T, device: torch.device) -> T:
    """A copy whose weights are on `device`; tensors that are no weights stay shared with the original."""
    shared: dict[int, object] = {}
    for part in module.modules():
        for value in vars(part).values():
            if isinstance(value, torch.Tensor):
                shared[id(value)] = value
    for weight in [*module.parameters(), *module.buffers()]:
        moved = weight.to(device, non_blocking=True)
        shared[id(weight)] = nn.Parameter(moved, requires_grad=False) if isinstance(weight, nn.Parameter) else moved
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return copy.deepcopy(module, shared)
