"""Whether Triton kernels can run, and what several of them share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
    from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
except ImportError:  # macOS, Windows, CPU builds: the twins run
    triton = tl = gdc_launch_dependents = gdc_wait = None

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def jit(function: Any) -> Any:
    """`triton.jit`, or the function itself where there is no Triton (it is then never launched)."""
    return function if triton is None else triton.jit(function)


def jit_for_any(*numbers: str) -> Callable[[Any], Any]:
    """`jit` for a kernel that is compiled once whatever these arguments are: Triton makes one of its own for 1 and for
    multiples of 16.
    """
    return jit if triton is None else partial(triton.jit, do_not_specialize=numbers)


_twins_wanted = False


@contextmanager
def twins_only() -> Iterator[None]:
    """Inside, no kernel is used, in any thread: for benchmarks and tests that compare kernels with their twins."""
    global _twins_wanted
    before, _twins_wanted = _twins_wanted, True
    try:
        yield
    finally:
        _twins_wanted = before


def use_kernel(x: torch.Tensor) -> bool:
    """Whether a kernel can work on `x`: on CUDA where Triton works, or anywhere under Triton's interpreter (tests)."""
    return not _twins_wanted and (INTERPRETED or (x.is_cuda and kernels_work()))


@cache
def kernels_work() -> bool:
    """Whether Triton can build and run a kernel here; it needs a C compiler, which not every machine has."""
    if triton is None:
        return False
    flag = torch.zeros(1, device="cuda", dtype=torch.int32)
    try:
        _set_one[(1,)](flag)
    except Exception:  # whatever a compiler chain can raise: the twins give the same answer, slower
        return False
    return bool(flag.item() == 1)


@jit
def _set_one(flag):
    tl.store(flag, 1)


@cache
def _overlaps(device: torch.device) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (9, 0)


def overlap(x: torch.Tensor) -> dict[str, bool]:
    """Launch options with which a kernel's programs may start while the kernel before is still at work, from Hopper on
    (programmatic dependent launch). Such a kernel waits for its predecessor before it reads what that made: `begin`.
    """
    early = not INTERPRETED and _overlaps(x.device)
    return {"EARLY": early, "launch_pdl": early} if early else {"EARLY": False}


@jit
def begin(EARLY: tl.constexpr):
    """Wait for the predecessor; what kernels before that one made is there already, weights above all. Only then may
    the successor start: programs of a kernel that waits for a kernel that waits would take room from the one at work.

    Every program of a kernel comes by here, with or without work of its own.
    """
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()
