"""The gated linear unit behind its product."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from music3_cli.kernels.tf32 import operand, rounded_to_tf32
from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton, use_kernel

_COLUMNS = 1024


def gate(product: torch.Tensor, bias_N: torch.Tensor, tf32: bool = False) -> torch.Tensor:
    """value x SiLU(gate), [..., I], of a product [..., 2 I] of value columns, then gate columns, to which the bias is
    added first. Computed in the bias's dtype, rounded to the product's dtype once, or to TF32.
    """
    if not use_kernel(product):
        value, gate = (product.to(bias_N.dtype) + bias_N).chunk(2, -1)
        result = (value * F.silu(gate)).to(product.dtype)
        return rounded_to_tf32(result) if tf32 else result
    inner = product.shape[-1] // 2
    out = product.new_empty((*product.shape[:-1], inner))
    _gate[(out.numel() // inner, triton.cdiv(inner, _COLUMNS))](
        product, bias_N, out, inner, COLUMNS=_COLUMNS, TF32=tf32, **overlap(out)
    )
    return out


@jit
def _gate(product, bias, out, inner, COLUMNS: tl.constexpr, TF32: tl.constexpr, EARLY: tl.constexpr):
    begin(EARLY)
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < inner
    at = product + row * 2 * inner + column
    value = tl.load(at, mask=inside, other=0.0).to(tl.float32) + tl.load(bias + column, mask=inside, other=0.0)
    gate = tl.load(at + inner, mask=inside, other=0.0).to(tl.float32)
    gate += tl.load(bias + inner + column, mask=inside, other=0.0)
    result = value * (gate / (1.0 + tl.exp(-gate)))
    tl.store(out + row * inner + column, operand(result, out.dtype.element_ty, TF32), mask=inside)
