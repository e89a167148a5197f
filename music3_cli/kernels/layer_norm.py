"""LayerNorm, alone and behind a residual sum. The residual stream is wide; what a product is given may be narrower."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from music3_cli.kernels.tf32 import operand, rounded_to_tf32
from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton, use_kernel

Affine = tuple[torch.Tensor, torch.Tensor]
"""A norm's weight and bias, [C] each."""


def layer_norm(x: torch.Tensor, affine: Affine, eps: float, dtype: torch.dtype, tf32: bool = False) -> torch.Tensor:
    """LayerNorm over the last dimension, computed in x's dtype and rounded to `dtype` once, or to TF32."""
    if not use_kernel(x):
        normed = F.layer_norm(x, x.shape[-1:], *affine, eps).to(dtype)
        return rounded_to_tf32(normed) if tf32 else normed
    normed = torch.empty_like(x, dtype=dtype)
    _launch(x, None, None, affine, x, normed, eps, tf32)
    return normed


def add_layer_norm(
    x: torch.Tensor,
    product: torch.Tensor,
    bias_C: torch.Tensor | None,
    affine: Affine,
    eps: float,
    dtype: torch.dtype,
    tf32: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The residual stream behind a product, and its norm: y = x + (product + bias), layer_norm(y).

    Args:
        x: [..., C], the residual stream.
        product: [..., C] in the products' dtype; it is widened before anything is added.

    Returns:
        y in x's dtype, its norm in `dtype`, or rounded to TF32.
    """
    if not use_kernel(x):
        y = x + add_bias(product.to(x.dtype), bias_C)
        return y, layer_norm(y, affine, eps, dtype, tf32)
    y, normed = torch.empty_like(x), torch.empty_like(x, dtype=dtype)
    _launch(x, product, bias_C, affine, y, normed, eps, tf32)
    return y, normed


def add_bias(x: torch.Tensor, bias_C: torch.Tensor | None) -> torch.Tensor:
    return x if bias_C is None else x + bias_C


def _launch(
    x: torch.Tensor,
    product: torch.Tensor | None,
    bias_C: torch.Tensor | None,
    affine: Affine,
    y: torch.Tensor,
    normed: torch.Tensor,
    eps: float,
    tf32: bool,
) -> None:
    width = x.shape[-1]
    _add_layer_norm[(x.numel() // width,)](
        x, product, bias_C, *affine, y, normed, width, eps,
        WIDTH=triton.next_power_of_2(width), TF32=tf32, num_warps=4 if width <= 2048 else 8, **overlap(x),
    )  # fmt: skip


@jit
def _add_layer_norm(
    x, product, bias, weight, shift, y, normed, width, eps,
    WIDTH: tl.constexpr, TF32: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    row = tl.program_id(0).to(tl.int64) * width
    at = tl.arange(0, WIDTH)
    inside = at < width
    total = tl.load(x + row + at, mask=inside, other=0.0)
    if product is not None:
        addend = tl.load(product + row + at, mask=inside, other=0.0).to(tl.float32)
        if bias is not None:
            addend += tl.load(bias + at, mask=inside, other=0.0)
        total += addend
        tl.store(y + row + at, total, mask=inside)
    centred = tl.where(inside, total - tl.sum(total, 0) / width, 0.0)
    scale = 1.0 / tl.sqrt_rn(tl.sum(centred * centred, 0) / width + eps)
    result = centred * scale * tl.load(weight + at, mask=inside, other=0.0) + tl.load(
        shift + at, mask=inside, other=0.0
    )
    tl.store(normed + row + at, operand(result, normed.dtype.element_ty, TF32), mask=inside)
