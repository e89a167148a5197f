"""A fused query, key and value product to heads whose first dimensions are rotated, as attention takes them."""

from __future__ import annotations

import torch

from music3_cli.kernels.rotary import rotate
from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton, use_kernel

Tables = tuple[torch.Tensor, torch.Tensor]
"""Cosines and sines, [T, rotary dim] float32 each."""


def split_heads(
    qkv_BTN: torch.Tensor, tables: Tables, head_dim: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values, [B, H, T, D] in `dtype` each; the first `rotary dim` of a head's dimensions of queries
    and keys are rotated, in float32.

    Args:
        qkv_BTN: the product, N = 3 x H x D. May be overwritten.
    """
    if not use_kernel(qkv_BTN):
        q, k, v = (part.unflatten(-1, (-1, head_dim)) for part in qkv_BTN.chunk(3, -1))
        q, k = (_rotate_first(part, tables) for part in (q, k))
        q, k, v = (part.to(dtype).transpose(1, 2) for part in (q, k, v))
        return q, k, v
    rows, positions, width = qkv_BTN.shape
    rotary, heads = tables[0].shape[-1], width // 3 // head_dim
    # Where no dtype changes, only what is rotated is touched.
    out = qkv_BTN if qkv_BTN.dtype == dtype else torch.empty_like(qkv_BTN, dtype=dtype)
    _split_heads[(rows * positions,)](
        qkv_BTN, *tables, out, positions, 2 * heads, heads, head_dim, rotary,
        TURNED=triton.next_power_of_2(2 * heads), HEADS=triton.next_power_of_2(heads),
        HALF=triton.next_power_of_2(rotary // 2), REST=triton.next_power_of_2(max(1, head_dim - rotary)),
        DIM=triton.next_power_of_2(head_dim), COPY=out is not qkv_BTN, num_warps=4, **overlap(out),
    )  # fmt: skip
    q, k, v = (part.unflatten(-1, (-1, head_dim)).transpose(1, 2) for part in out.chunk(3, -1))
    return q, k, v


def _rotate_first(x_BTHD: torch.Tensor, tables: Tables) -> torch.Tensor:
    rotary = tables[0].shape[-1]
    turned, rest = x_BTHD.split((rotary, x_BTHD.shape[-1] - rotary), -1)
    return torch.cat((rotate(turned, *(table[:, None] for table in tables)), rest), -1)


@jit
def _split_heads(
    qkv, cos, sin, out, positions, turned_heads, heads, dim, rotary,
    TURNED: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr, REST: tl.constexpr, DIM: tl.constexpr,
    COPY: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    row = tl.program_id(0)
    position = row % positions
    start = row.to(tl.int64) * 3 * heads * dim
    dtype = out.dtype.element_ty
    head, pair = tl.arange(0, TURNED), tl.arange(0, HALF)
    half = rotary // 2
    inside = (head < turned_heads)[:, None] & (pair < half)[None, :]
    at = start + head[:, None] * dim + pair[None, :]
    first = tl.load(qkv + at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(qkv + at + half, mask=inside, other=0.0).to(tl.float32)
    in_table, phase = pair < half, position * rotary + pair
    c = tl.load(cos + phase, mask=in_table, other=0.0)[None, :]
    s = tl.load(sin + phase, mask=in_table, other=0.0)[None, :]
    tl.store(out + at, (first * c - second * s).to(dtype), mask=inside)
    tl.store(out + at + half, (second * c + first * s).to(dtype), mask=inside)
    if COPY:
        rest = tl.arange(0, REST)
        inside = (head < turned_heads)[:, None] & (rest < dim - rotary)[None, :]
        at = start + head[:, None] * dim + rotary + rest[None, :]
        tl.store(out + at, tl.load(qkv + at, mask=inside, other=0.0).to(dtype), mask=inside)
        value, element = tl.arange(0, HEADS), tl.arange(0, DIM)
        inside = (value < heads)[:, None] & (element < dim)[None, :]
        at = start + (turned_heads + value[:, None]) * dim + element[None, :]
        tl.store(out + at, tl.load(qkv + at, mask=inside, other=0.0).to(dtype), mask=inside)
