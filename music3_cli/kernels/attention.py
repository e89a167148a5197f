"""Attention of one new position a row to the row's own known positions, from the QKV product to the attended heads."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from music3_cli.kernels.linear import sum_parts
from music3_cli.kernels.norm import rms_norm
from music3_cli.kernels.rotary import rotate
from music3_cli.kernels.triton_support import begin, jit, jit_for_any, overlap, tl, triton, use_kernel

PARTS, SHORTEST = 16, 64
"""A row's positions are cut into at most so many parts, of 64, 128, 256, ... positions each: by its own length alone,
so that its sum is the same whatever rows are beside it and however much room the cache has.
"""
LEAST_DIM = 32
"""Heads are held in halves, and tensor cores take no fewer than 16 inner elements."""

BLOCK, WARPS, STAGES = 64, 4, 3
"""Positions that a program takes at once, its warps, and blocks on their way."""


@dataclass(frozen=True)
class HeadNorms:
    """Weights [D] of the query heads' and the key heads' RMSNorm."""

    query_D: torch.Tensor
    key_D: torch.Tensor
    eps: float


@dataclass(frozen=True)
class LayerCache:
    """A layer's keys and values of R rows.

    Attributes:
        keys_RGPD, values_RGPD: G key heads, P positions of room.
        arrived_RG: int32 zeros between two calls: how many parts of a row's positions are done.
    """

    keys_RGPD: torch.Tensor
    values_RGPD: torch.Tensor
    arrived_RG: torch.Tensor


def decode_attention(q_RHD: torch.Tensor, k_RGPD: torch.Tensor, v_RGPD: torch.Tensor) -> torch.Tensor:
    """Attention to all P positions; grouped heads. Plain torch, also for the few positions of a frame's depth.

    Args:
        q_RHD: queries, H heads; heads g*H/G .. share key head g.
        k_RGPD, v_RGPD: keys and values, G heads.

    Returns:
        [R, H, D]. Two batched products a call with the group's heads as rows, softmax in float32.
    """
    rows, heads, dim = q_RHD.shape
    groups = k_RGPD.shape[1]
    q_RGHD = q_RHD.view(rows, groups, heads // groups, dim)
    scores = (q_RGHD @ k_RGPD.transpose(-1, -2)).float() * dim**-0.5
    return (scores.softmax(-1).to(v_RGPD.dtype) @ v_RGPD).view(rows, heads, dim)


def attend(
    parts_PRN: torch.Tensor,
    norms: HeadNorms,
    tables: tuple[torch.Tensor, torch.Tensor],
    position_R: torch.Tensor,
    cache: LayerCache,
) -> torch.Tensor:
    """Norm and rotate the new query and key heads, put key and value into the cache, attend to positions 0 to the new.

    Sums, norms and rotations are rounded to the cache's dtype one by one, as transformers' Qwen3 does.

    Args:
        parts_PRN: the QKV product's partial sums; N = (H + 2 G) x D.
        tables: [P, D] cosines and sines in the cache's dtype.
        position_R: int64, the new position of each row, read on the device; rows 2s and 2s + 1 are one song and have
            the same.

    Returns:
        [R, H x D].
    """
    keys, values = cache.keys_RGPD, cache.values_RGPD
    groups, dim = keys.shape[1], keys.shape[3]
    parts, rows, width = parts_PRN.shape
    heads = width // dim - 2 * groups
    if not use_kernel(parts_PRN) or dim < LEAST_DIM:
        return _attend_plainly(parts_PRN, norms, tables, position_R, (keys, values), heads)
    mixed = torch.empty(rows, groups, PARTS, heads // groups, dim, device=keys.device, dtype=torch.float32)
    weights = torch.empty(rows, groups, PARTS, heads // groups, 2, device=keys.device, dtype=torch.float32)
    out = torch.empty(rows, heads * dim, device=keys.device, dtype=keys.dtype)
    shared = heads // groups
    _attend[(PARTS, groups, rows)](
        parts_PRN, norms.query_D, norms.key_D, *tables, position_R, keys, values, mixed, weights, cache.arrived_RG, out,
        rows, keys.stride(0), keys.stride(1), norms.eps, dim**-0.5,
        SUMS=parts, GROUPS=groups, SHARED=shared, ROOM=max(16, triton.next_power_of_2(shared)),
        FULL=triton.next_power_of_2(shared), HALF=dim // 2, PARTS=PARTS, SHORTEST=SHORTEST, BLOCK=BLOCK,
        num_warps=WARPS, num_stages=STAGES, **overlap(parts_PRN),
        enable_fp_fusion=False,  # as plain torch rounds
    )  # fmt: skip
    return out


def _attend_plainly(
    parts_PRN: torch.Tensor,
    norms: HeadNorms,
    tables: tuple[torch.Tensor, torch.Tensor],
    position_R: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    heads: int,
) -> torch.Tensor:
    keys, values = cache
    groups, dim = keys.shape[1], keys.shape[3]
    qkv = sum_parts(parts_PRN, keys.dtype).unflatten(-1, (-1, dim))
    q, k, v = qkv.split((heads, groups, groups), 1)
    phases = tables[0][position_R][:, None], tables[1][position_R][:, None]
    row = torch.arange(len(qkv), device=keys.device)
    keys[row, :, position_R] = rotate(rms_norm(k, norms.key_D, norms.eps), *phases)
    values[row, :, position_R] = v
    q = rotate(rms_norm(q, norms.query_D, norms.eps), *phases)
    # A song at a time over its own length: the same arithmetic whatever songs are beside it.
    out = torch.empty_like(q)
    for first in range(0, len(q), 2):
        song, end = slice(first, first + 2), int(position_R[first]) + 1
        out[song] = decode_attention(q[song], keys[song, :, :end], values[song, :, :end])
    return out.flatten(1)


@jit
def _summed(at, stride, mask, dtype, SUMS: tl.constexpr):
    """A piece of a product from its partial sums, rounded."""
    total = tl.load(at, mask=mask, other=0.0)
    for index in tl.static_range(1, SUMS):
        total += tl.load(at + index * stride, mask=mask, other=0.0)
    return total.to(dtype)


@jit
def _turned(first, second, n1, n2, c1, c2, s1, s2, eps):
    """Heads [n, D / 2] twice, normed and rotated; the halves are rotated against each other, so they are held apart.

    Each product is rounded before the sum, as plain torch does.
    """
    a, b = first.to(tl.float32), second.to(tl.float32)
    scale = tl.rsqrt((tl.sum(a * a, 1) + tl.sum(b * b, 1)) / (2 * first.shape[1]) + eps)[:, None]
    x, y = (a * scale).to(first.dtype) * n1[None, :], (b * scale).to(first.dtype) * n2[None, :]
    turned1 = (x * c1[None, :]).to(first.dtype) - (y * s1[None, :]).to(first.dtype)
    turned2 = (y * c2[None, :]).to(first.dtype) + (x * s2[None, :]).to(first.dtype)
    return turned1, turned2


@jit_for_any("rows")
def _attend(
    product, q_norm, k_norm, cos, sin, position, keys, values, mixed_out, weights_out, arrived, out,
    rows, row_stride, head_stride, eps, scale,
    SUMS: tl.constexpr, GROUPS: tl.constexpr, SHARED: tl.constexpr, ROOM: tl.constexpr, FULL: tl.constexpr,
    HALF: tl.constexpr, PARTS: tl.constexpr, SHORTEST: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    part, group, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    DIM: tl.constexpr = 2 * HALF
    # All but the product is older than the kernel before.
    last = tl.load(position + row).to(tl.int32)
    span = tl.full((), SHORTEST, tl.int32)
    while span * PARTS <= last:
        span *= 2
    start = part * span
    half, d = tl.arange(0, HALF), tl.arange(0, DIM)
    phase = last * DIM + half
    c1, c2 = tl.load(cos + phase), tl.load(cos + phase + HALF)
    s1, s2 = tl.load(sin + phase), tl.load(sin + phase + HALF)
    qn1, qn2 = tl.load(q_norm + half), tl.load(q_norm + half + HALF)
    kn1, kn2 = tl.load(k_norm + half), tl.load(k_norm + half + HALF)
    p = tl.arange(0, BLOCK)
    base = row.to(tl.int64) * row_stride + group * head_stride
    begin(EARLY)
    if start <= last:
        dtype = out.dtype.element_ty
        head = tl.arange(0, ROOM)
        is_head = head < SHARED
        width = (SHARED + 2) * GROUPS * DIM
        stride = rows * width
        q_at = product + row * width + (group * SHARED + head)[:, None] * DIM + half[None, :]
        q1 = _summed(q_at, stride, is_head[:, None], dtype, SUMS)
        q2 = _summed(q_at + HALF, stride, is_head[:, None], dtype, SUMS)
        q1, q2 = _turned(q1, q2, qn1, qn2, c1, c2, s1, s2, eps)
        one = tl.arange(0, 1)
        always = (one >= 0)[:, None] & (half >= 0)[None, :]
        k_at = product + row * width + (GROUPS * SHARED + group) * DIM + one[:, None] + half[None, :]
        k1 = _summed(k_at, stride, always, dtype, SUMS)
        k2 = _summed(k_at + HALF, stride, always, dtype, SUMS)
        k1, k2 = _turned(k1, k2, kn1, kn2, c1, c2, s1, s2, eps)
        v_at = product + row * width + (GROUPS * (SHARED + 1) + group) * DIM + d
        v = _summed(v_at, stride, d >= 0, dtype, SUMS)
        top = tl.full((ROOM,), float("-inf"), tl.float32)
        total = tl.zeros((ROOM,), tl.float32)
        mixed = tl.zeros((ROOM, DIM), tl.float32)
        for first in range(start, tl.minimum(last, start + span), BLOCK):
            place = first + p
            old = (place < last)[:, None]
            at = base + place[:, None] * DIM
            keys1 = tl.load(keys + at + half[None, :], mask=old, other=0.0)
            keys2 = tl.load(keys + at + HALF + half[None, :], mask=old, other=0.0)
            scores = tl.dot(q1, tl.trans(keys1), input_precision="ieee")
            scores = tl.dot(q2, tl.trans(keys2), scores, input_precision="ieee") * scale
            scores = tl.where((place < last)[None, :], scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1))
            weight = tl.exp(scores - higher[:, None])
            fade = tl.exp(top - higher)
            total = total * fade + tl.sum(weight, 1)
            known = tl.load(values + at + d[None, :], mask=old, other=0.0)
            mixed = tl.dot(weight.to(dtype), known, mixed * fade[:, None], input_precision="ieee")
            top = higher
        if start + span > last:
            # The new position's key and value are at hand.
            new = base + last * DIM
            tl.store(keys + new + one[:, None] + half[None, :], k1)
            tl.store(keys + new + HALF + one[:, None] + half[None, :], k2)
            tl.store(values + new + d, v)
            score = tl.sum(q1.to(tl.float32) * k1.to(tl.float32), 1) + tl.sum(q2.to(tl.float32) * k2.to(tl.float32), 1)
            higher = tl.maximum(top, score * scale)
            new_weight = tl.exp(score * scale - higher)
            fade = tl.exp(top - higher)
            total = total * fade + new_weight
            mixed = mixed * fade[:, None] + new_weight.to(dtype).to(tl.float32)[:, None] * v.to(tl.float32)[None, :]
            top = higher
        own = (row * GROUPS + group) * PARTS
        at_own = (own + part) * SHARED + head
        tl.store(mixed_out + at_own[:, None] * DIM + d[None, :], mixed, mask=is_head[:, None])
        tl.store(weights_out + at_own * 2, top, mask=is_head)
        tl.store(weights_out + at_own * 2 + 1, total, mask=is_head)

        # Whichever program comes last joins the parts, in their order.
        tl.debug_barrier()
        done = tl.atomic_add(arrived + row * GROUPS + group, 1, sem="acq_rel")
        if done == last // span:
            tl.store(arrived + row * GROUPS + group, 0)
            every, full = tl.arange(0, PARTS), tl.arange(0, FULL)
            there = (every * span <= last)[:, None] & (full < SHARED)[None, :]
            at_each = (own + every)[:, None] * SHARED + full[None, :]
            tops = tl.load(weights_out + at_each * 2, mask=there, other=float("-inf"))
            totals = tl.load(weights_out + at_each * 2 + 1, mask=there, other=0.0)
            pieces = tl.load(
                mixed_out + at_each[:, :, None] * DIM + d[None, None, :], mask=there[:, :, None], other=0.0
            )
            highest = tl.max(tops, 0)
            shares = tl.where(there, tl.exp(tops - highest[None, :]), 0.0)
            joined = tl.sum(pieces * shares[:, :, None], 0) / tl.sum(totals * shares, 0)[:, None]
            to = out + ((row * GROUPS + group) * SHARED + full)[:, None] * DIM + d[None, :]
            tl.store(to, joined.to(dtype), mask=(full < SHARED)[:, None])
