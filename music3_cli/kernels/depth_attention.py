"""Attention inside a frame: one or two new positions a row to at most eight."""

from __future__ import annotations

import torch

from music3_cli.kernels.attention import decode_attention
from music3_cli.kernels.linear import sum_parts
from music3_cli.kernels.triton_support import begin, jit_for_any, overlap, tl, use_kernel


def depth_attend(parts_PRN: torch.Tensor, cache_KRGPD: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """Put `count` new positions' keys and values into the frame's cache and attend causally.

    Args:
        parts_PRN: the QKV product's partial sums for count x R rows, all first new positions, then all second.
        cache_KRGPD: [2, R, heads, positions, D] keys and values.
        first: the first new position.

    Returns:
        [count x R, heads x D].
    """
    _, rows, heads, room, dim = cache_KRGPD.shape
    if not use_kernel(parts_PRN):
        qkv = sum_parts(parts_PRN, cache_KRGPD.dtype).unflatten(0, (count, rows)).unflatten(-1, (3, heads, dim))
        attended = []
        for new in range(count):
            q, k, v = qkv[new].unbind(1)
            at = first + new
            cache_KRGPD[0, :, :, at], cache_KRGPD[1, :, :, at] = k, v
            attended.append(decode_attention(q, cache_KRGPD[0, :, :, : at + 1], cache_KRGPD[1, :, :, : at + 1]))
        return torch.cat(attended).flatten(1)
    out = torch.empty(count * rows, heads * dim, device=cache_KRGPD.device, dtype=cache_KRGPD.dtype)
    _depth_attend[(rows, heads)](
        parts_PRN, cache_KRGPD[0], cache_KRGPD[1], out, rows, dim**-0.5,
        PARTS=len(parts_PRN), FIRST=first, COUNT=count, HEADS=heads, ROOM=room, DIM=dim,
        num_warps=4, **overlap(parts_PRN),
    )  # fmt: skip
    return out


@jit_for_any("rows")
def _depth_attend(
    parts, keys, values, out, rows, scale,
    PARTS: tl.constexpr, FIRST: tl.constexpr, COUNT: tl.constexpr, HEADS: tl.constexpr, ROOM: tl.constexpr,
    DIM: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    d, p = tl.arange(0, DIM), tl.arange(0, ROOM)
    dtype = out.dtype.element_ty
    width = 3 * HEADS * DIM
    base = (row * HEADS + head) * ROOM * DIM
    at = base + p[:, None] * DIM + d[None, :]
    # Of the frame's earlier positions, and older than the kernel before.
    old = p[:, None] < FIRST
    k = tl.load(keys + at, mask=old, other=0.0)
    v = tl.load(values + at, mask=old, other=0.0)
    begin(EARLY)
    for new in tl.static_range(0, COUNT):
        source = parts + (new * rows + row) * width + head * DIM + d
        q = tl.load(source)
        new_k = tl.load(source + HEADS * DIM)
        new_v = tl.load(source + 2 * HEADS * DIM)
        for part in tl.static_range(1, PARTS):
            step = part * COUNT * rows * width
            q += tl.load(source + step)
            new_k += tl.load(source + step + HEADS * DIM)
            new_v += tl.load(source + step + 2 * HEADS * DIM)
        new_k, new_v = new_k.to(dtype), new_v.to(dtype)
        place = FIRST + new
        tl.store(keys + base + place * DIM + d, new_k)
        tl.store(values + base + place * DIM + d, new_v)
        here = p[:, None] == place
        k = tl.where(here, new_k[None, :], k)
        v = tl.where(here, new_v[None, :], v)
        scores = tl.sum(q.to(dtype).to(tl.float32)[None, :] * k.to(tl.float32), 1) * scale
        scores = tl.where(p <= place, scores, float("-inf"))
        weight = tl.exp(scores - tl.max(scores, 0))
        weight = (weight / tl.sum(weight, 0)).to(dtype).to(tl.float32)
        mixed = tl.sum(weight[:, None] * v.to(tl.float32), 0)
        tl.store(out + ((new * rows + row) * HEADS + head) * DIM + d, mixed.to(dtype))
