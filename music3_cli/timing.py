"""How long work on a device takes, for the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds_of(run: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Mean seconds of one `run`, after one that is not counted."""
    run()
    wait(device)
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    wait(device)
    return (time.perf_counter() - started) / repeats


def wait(device: torch.device) -> None:
    """Until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
