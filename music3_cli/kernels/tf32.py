"""Rounding to TF32 ahead of the tensor cores.

A TF32 product rounds its float32 operands to 10 bits behind the leading one: on Hopper, and for the released shapes,
cuBLAS does so to the nearest, ties to even. Operands that are rounded beforehand give the same product, but 13 of their
32 bits are then zeros, which cost no energy to move and multiply. These products run at the GPU's power limit, so less
energy is more speed: 4 % of a step (benchmarks/RESULTS.md).
"""

from __future__ import annotations

import torch

from music3_cli.kernels.triton_support import jit, tl


def rounded_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Float32 `x` with the nearest 10 bits behind the leading one, ties to even; what is not finite stays."""
    bits = x.view(torch.int32)
    nearest = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF
    return torch.where(x.isfinite(), nearest.view(torch.float32), x)


def rounding_pays(device: torch.device) -> bool:
    """Whether operands of TF32 products are rounded beforehand on this device: on Hopper, where it was measured."""
    return device.type == "cuda" and torch.version.hip is None and torch.cuda.get_device_capability(device) == (9, 0)


@jit
def operand(value, dtype, TF32: tl.constexpr):
    """A float32 value as a product's operand: rounded to `dtype`, or to TF32 first."""
    if TF32:
        bits = value.to(tl.int32, bitcast=True)
        nearest = ((bits + 0xFFF + ((bits >> 13) & 1)) & -0x2000).to(tl.float32, bitcast=True)
        value = tl.where(tl.abs(value) < float("inf"), nearest, value)
    return value.to(dtype)
