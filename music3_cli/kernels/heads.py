"""From the fused QKV product to rotated query heads, with keys and values put into the cache."""

from __future__ import annotations

import torch

from music3_cli.kernels.linear import sum_parts
from music3_cli.kernels.norm import rms_norm
from music3_cli.kernels.rotary import rotate
from music3_cli.kernels.triton_support import begin, jit, overlap, tl, use_kernel


def heads_into_cache(
    parts_PRN: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    tables: tuple[torch.Tensor, torch.Tensor],
    position_R: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    eps: float,
) -> torch.Tensor:
    """Sum the parts, norm and rotate query and key heads, write keys and values at each row's position.

    Args:
        parts_PRN: the QKV product's partial sums; N = (H + 2 G) x D.
        norms: weights of the query and the key norm, [D] each.
        tables: [P, D] cosines and sines in the heads' dtype.
        position_R: int64, where each row writes.
        cache: keys and values, [R or more, G, P, D] each.

    Returns:
        [R, H, D] queries.
    """
    (keys, values), (cos, sin) = cache, tables
    groups, dim = keys.shape[1], keys.shape[3]
    rows = parts_PRN.shape[1]
    heads = parts_PRN.shape[2] // dim - 2 * groups
    if not use_kernel(parts_PRN):
        qkv = sum_parts(parts_PRN, keys.dtype).unflatten(-1, (-1, dim))
        q, k, v = qkv.split((heads, groups, groups), 1)
        phases = cos[position_R][:, None], sin[position_R][:, None]
        row = torch.arange(rows, device=keys.device)
        keys[row, :, position_R] = rotate(rms_norm(k, norms[1], eps), *phases)
        values[row, :, position_R] = v
        return rotate(rms_norm(q, norms[0], eps), *phases)
    queries = torch.empty(rows, heads, dim, device=keys.device, dtype=keys.dtype)
    _heads_into_cache[(rows, heads + 2 * groups)](
        parts_PRN, *norms, cos, sin, position_R, queries, keys, values, rows, keys.stride(0), keys.stride(1), eps,
        PARTS=len(parts_PRN), HEADS=heads, GROUPS=groups, HALF=dim // 2, num_warps=1, **overlap(parts_PRN),
        enable_fp_fusion=False,  # as plain torch rounds
    )  # fmt: skip
    return queries


@jit
def _heads_into_cache(
    parts, q_norm, k_norm, cos, sin, position, queries, keys, values, rows, row_stride, head_stride, eps,
    PARTS: tl.constexpr, HEADS: tl.constexpr, GROUPS: tl.constexpr, HALF: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    row, head = tl.program_id(0), tl.program_id(1)
    dim = 2 * HALF
    width = (HEADS + 2 * GROUPS) * dim
    dtype = queries.dtype.element_ty
    half = tl.arange(0, HALF)
    # The two halves are rotated against each other, so they are held apart.
    at = parts + row * width + head * dim + half
    first, second = tl.load(at), tl.load(at + HALF)
    for part in tl.static_range(1, PARTS):
        first += tl.load(at + part * rows * width)
        second += tl.load(at + part * rows * width + HALF)
    first, second = first.to(dtype), second.to(dtype)
    place = tl.load(position + row)
    if head >= HEADS + GROUPS:
        to = values + row * row_stride + (head - HEADS - GROUPS) * head_stride + place * dim + half
        tl.store(to, first)
        tl.store(to + HALF, second)
    else:
        a, b = first.to(tl.float32), second.to(tl.float32)
        scale = tl.rsqrt((tl.sum(a * a, 0) + tl.sum(b * b, 0)) / dim + eps)
        norm = q_norm
        if head >= HEADS:
            norm = k_norm
        first = (a * scale).to(dtype) * tl.load(norm + half)
        second = (b * scale).to(dtype) * tl.load(norm + HALF + half)
        c1, c2 = tl.load(cos + place * dim + half), tl.load(cos + place * dim + HALF + half)
        s1, s2 = tl.load(sin + place * dim + half), tl.load(sin + place * dim + HALF + half)
        # Each product is rounded before the sum, as plain torch does.
        turned1 = (first * c1).to(dtype) - (second * s1).to(dtype)
        turned2 = (second * c2).to(dtype) + (first * s2).to(dtype)
        if head < HEADS:
            to = queries + (row * HEADS + head) * dim + half
        else:
            to = keys + row * row_stride + (head - HEADS) * head_stride + place * dim + half
        tl.store(to, turned1)
        tl.store(to + HALF, turned2)
