"""Attention of every position to every position, softmax and sums in float32."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from music3_cli.kernels.tf32 import operand, rounded_to_tf32
from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton, use_kernel

BLOCK = 64
"""Queries of a program, and keys that it takes at once."""


def full_attention(
    q_BHTD: torch.Tensor, k_BHTD: torch.Tensor, v_BHTD: torch.Tensor, dtype: torch.dtype, tf32: bool = False
) -> torch.Tensor:
    """[B, T, H x D] in `dtype`, or rounded to TF32. Float16 heads go through tensor cores; float32 ones have exact
    products, in torch's attention.

    Args:
        q_BHTD, k_BHTD, v_BHTD: heads with equal strides, the last one 1.
    """
    if q_BHTD.dtype != torch.float16 or not use_kernel(q_BHTD):
        attended = F.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD).transpose(1, 2).flatten(2).to(dtype)
        return rounded_to_tf32(attended) if tf32 else attended
    batch, heads, length, dim = q_BHTD.shape
    assert q_BHTD.stride() == k_BHTD.stride() == v_BHTD.stride() and q_BHTD.stride(-1) == 1
    out = torch.empty(batch, length, heads * dim, device=q_BHTD.device, dtype=dtype)
    _full_attention[(triton.cdiv(length, BLOCK), batch * heads)](
        q_BHTD, k_BHTD, v_BHTD, out, *q_BHTD.stride()[:3], length, heads, dim**-0.5 * math.log2(math.e),
        BLOCK=BLOCK, DIM=dim, TF32=tf32, num_warps=4, num_stages=3, **overlap(out),
    )  # fmt: skip
    return out


@jit
def _full_attention(
    q, k, v, out, batch_stride, head_stride, stride, length, heads, scale,
    BLOCK: tl.constexpr, DIM: tl.constexpr, TF32: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    row, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    place, d = tl.arange(0, BLOCK), tl.arange(0, DIM)
    base = row.to(tl.int64) * batch_stride + head * head_stride
    own = tl.program_id(0) * BLOCK + place
    inside = (own < length)[:, None]
    queries = tl.load(q + base + own[:, None] * stride + d[None, :], mask=inside, other=0.0)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    mixed = tl.zeros((BLOCK, DIM), tl.float32)
    at = base + place[:, None] * stride + d[None, :]
    whole = length // BLOCK * BLOCK
    for first in range(0, whole, BLOCK):
        keys = tl.load(k + at + first * stride)
        # Powers of two instead of e, with log2(e) in the scale.
        scores = tl.dot(queries, tl.trans(keys)) * scale
        higher = tl.maximum(top, tl.max(scores, 1))
        weight = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(weight, 1)
        values = tl.load(v + at + first * stride)
        mixed = tl.dot(weight.to(values.dtype), values, mixed * fade[:, None])
        top = higher
    if whole < length:
        there = whole + place < length
        keys = tl.load(k + at + whole * stride, mask=there[:, None], other=0.0)
        scores = tl.where(there[None, :], tl.dot(queries, tl.trans(keys)) * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weight = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(weight, 1)
        values = tl.load(v + at + whole * stride, mask=there[:, None], other=0.0)
        mixed = tl.dot(weight.to(values.dtype), values, mixed * fade[:, None])
    to = out + (row.to(tl.int64) * length + own[:, None]) * heads * DIM + head * DIM + d[None, :]
    tl.store(to, operand(mixed / total[:, None], out.dtype.element_ty, TF32), mask=inside)
