"""Whether Triton kernels can run, and what several of them share."""

from __future__ import annotations

import os
from functools import cache
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


def use_kernel(x: torch.Tensor) -> bool:
    """Whether a kernel can work on `x`: on CUDA, or anywhere under Triton's interpreter (for tests)."""
    return triton is not None and (x.is_cuda or INTERPRETED)


@cache
def _overlaps(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def overlap(x: torch.Tensor) -> dict[str, bool]:
    """Launch options with which a kernel's programs may start while the kernel before is still at work, from Hopper on.

    Such a kernel lets its successor start at once (`begin`), and waits for its predecessor before it reads anything that
    a kernel has written.
    """
    early = not INTERPRETED and _overlaps(x.device)
    return {"EARLY": early, "launch_pdl": early} if early else {"EARLY": False}


@jit
def begin(EARLY: tl.constexpr):
    """First line of a kernel that touches nothing before its predecessor is done. Only then may its successor start:
    programs of a kernel that waits for a kernel that waits would take room from the one at work.
    """
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()


@jit
def prefetch(at):
    """Ask for the cache lines at a block of addresses; the values are not waited for."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at], dtype=tl.int32, is_pure=False, pack=1
    )
