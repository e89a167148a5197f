"""RMSNorm, alone and behind a residual sum."""

from __future__ import annotations

import torch

from music3_cli.kernels.linear import sum_parts
from music3_cli.kernels.triton_support import begin, jit, jit_for_any, overlap, tl, triton, use_kernel


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last dimension.

    Computed in float32 and rounded to x's dtype twice, before and after the weight: so do the reference's depth decoder
    and transformers' Qwen3, and a single rounding moves bf16 codes off their trajectory within a few frames.
    """
    if use_kernel(x) and x.ndim == 2:
        normed = torch.empty_like(x)
        hidden = x.shape[1]
        _rms_norm[(len(x),)](
            x, weight, normed, hidden, eps, WIDTH=triton.next_power_of_2(hidden), num_warps=8, **overlap(x)
        )  # fmt: skip
        return normed
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return normed.to(x.dtype) * weight


def add_norm(
    parts_PRH: torch.Tensor, residual: torch.Tensor, weight_H: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The residual stream behind a product, and its norm: x = residual + sum of parts, rms_norm(x).

    Args:
        parts_PRH: a product's partial sums, rounded to the residual's dtype when summed.
        residual: [R / n, H]; each row is that of n rows one behind the other.

    Returns:
        x [R, H] and its norm [R, H].
    """
    if not use_kernel(residual):
        x = residual.repeat_interleave(parts_PRH.shape[1] // len(residual), 0) + sum_parts(parts_PRH, residual.dtype)
        return x, rms_norm(x, weight_H, eps)
    parts, rows, hidden = parts_PRH.shape
    x = torch.empty(rows, hidden, device=residual.device, dtype=residual.dtype)
    normed = torch.empty_like(x)
    _add_norm[(rows,)](
        parts_PRH, residual, weight_H, x, normed, rows, hidden, rows // len(residual), eps,
        PARTS=parts, WIDTH=triton.next_power_of_2(hidden), num_warps=8, **overlap(x),
    )  # fmt: skip
    return x, normed


@jit
def _rms_norm(x, weight, normed, hidden, eps, WIDTH: tl.constexpr, EARLY: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    inside = at < hidden
    scaled_by = tl.load(weight + at, mask=inside, other=0.0)
    begin(EARLY)
    wide = tl.load(x + row * hidden + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / hidden + eps)
    tl.store(normed + row * hidden + at, (wide * scale).to(scaled_by.dtype) * scaled_by, mask=inside)


@jit_for_any("rows", "alike")
def _add_norm(
    parts, residual, weight, x, normed, rows, hidden, alike, eps,
    PARTS: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    inside = at < hidden
    dtype = x.dtype.element_ty
    # Weight and residual are older than the kernel before, which made the parts.
    scaled_by = tl.load(weight + at, mask=inside, other=0.0)
    stream = tl.load(residual + row // alike * hidden + at, mask=inside, other=0.0).to(tl.float32)
    begin(EARLY)
    total = tl.load(parts + row * hidden + at, mask=inside, other=0.0)
    for part in tl.static_range(1, PARTS):
        total += tl.load(parts + (part * rows + row) * hidden + at, mask=inside, other=0.0)
    total = total.to(dtype).to(tl.float32) + stream
    total = total.to(dtype)
    tl.store(x + row * hidden + at, total, mask=inside)
    wide = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / hidden + eps)
    weighted = (wide * scale).to(dtype) * scaled_by
    tl.store(normed + row * hidden + at, weighted, mask=inside)
