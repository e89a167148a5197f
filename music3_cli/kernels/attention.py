"""Attention of one new position a row to the row's own known positions."""

from __future__ import annotations

import torch

from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton, use_kernel

SPLIT = 128
"""Positions a program. Fixed, so that a row's sum is cut the same way whatever rows are beside it."""


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


def attend(q_RHD: torch.Tensor, k_RGPD: torch.Tensor, v_RGPD: torch.Tensor, position_R: torch.Tensor) -> torch.Tensor:
    """Attention of each row to its positions 0 to position, read on the device.

    Args:
        q_RHD: queries.
        k_RGPD, v_RGPD: caches with P positions of room.
        position_R: int64, the last position of each row; rows 2s and 2s + 1 are one song and have the same.

    Returns:
        [R, H x D].
    """
    rows, heads, dim = q_RHD.shape
    if not use_kernel(q_RHD):
        # A song at a time over its own length: the same arithmetic whatever songs are beside it.
        out = torch.empty_like(q_RHD)
        for first in range(0, rows, 2):
            song, end = slice(first, first + 2), int(position_R[first]) + 1
            out[song] = decode_attention(q_RHD[song], k_RGPD[song, :, :end], v_RGPD[song, :, :end])
        return out.flatten(1)
    groups, capacity = k_RGPD.shape[1:3]
    parts = triton.cdiv(capacity, SPLIT)
    values = torch.empty(rows, parts, heads, dim, device=q_RHD.device, dtype=torch.float32)
    weights = torch.empty(rows, parts, heads, 2, device=q_RHD.device, dtype=torch.float32)
    strides = k_RGPD.stride(0), k_RGPD.stride(1)
    _attend_part[(parts, groups, rows)](
        q_RHD, k_RGPD, v_RGPD, position_R, values, weights, *strides, dim**-0.5,
        HEADS=heads, SHARED=heads // groups, ROOM=max(16, triton.next_power_of_2(heads // groups)), DIM=dim,
        SPLIT=SPLIT, BLOCK=64, num_warps=4, num_stages=3, **overlap(q_RHD),
    )  # fmt: skip
    out = torch.empty(rows, heads * dim, device=q_RHD.device, dtype=q_RHD.dtype)
    _attend_join[(rows, heads)](
        values, weights, position_R, out, parts,
        HEADS=heads, DIM=dim, SPLIT=SPLIT, AT_ONCE=16, num_warps=4, **overlap(q_RHD),
    )  # fmt: skip
    return out


@jit
def _attend_part(
    q, k, v, position, values, weights, row_stride, head_stride, scale,
    HEADS: tl.constexpr, SHARED: tl.constexpr, ROOM: tl.constexpr, DIM: tl.constexpr,
    SPLIT: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    part, group, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(position + row) + 1
    if part * SPLIT < length:
        head, d, p = tl.arange(0, ROOM), tl.arange(0, DIM), tl.arange(0, BLOCK)
        is_head = head < SHARED
        q_at = q + (row * HEADS + group * SHARED + head)[:, None] * DIM + d[None, :]
        queries = tl.load(q_at, mask=is_head[:, None], other=0.0)
        base = row.to(tl.int64) * row_stride + group * head_stride
        top = tl.full((ROOM,), float("-inf"), tl.float32)
        total = tl.zeros((ROOM,), tl.float32)
        mixed = tl.zeros((ROOM, DIM), tl.float32)
        for first in range(part * SPLIT, tl.minimum(length, (part + 1) * SPLIT), BLOCK):
            place = first + p
            known = place < length
            at = base + place[:, None] * DIM + d[None, :]
            keys = tl.load(k + at, mask=known[:, None], other=0.0)
            scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
            scores = tl.where(known[None, :], scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1))
            weight = tl.exp(scores - higher[:, None])
            fade = tl.exp(top - higher)
            total = total * fade + tl.sum(weight, 1)
            known_values = tl.load(v + at, mask=known[:, None], other=0.0)
            weight = weight.to(known_values.dtype)
            mixed = tl.dot(weight, known_values, mixed * fade[:, None], input_precision="ieee")
            top = higher
        parts = tl.num_programs(0)
        out = (row * parts + part) * HEADS + group * SHARED + head
        tl.store(values + out[:, None] * DIM + d[None, :], mixed, mask=is_head[:, None])
        tl.store(weights + out * 2, top, mask=is_head)
        tl.store(weights + out * 2 + 1, total, mask=is_head)


@jit
def _attend_join(
    values, weights, position, out, parts,
    HEADS: tl.constexpr, DIM: tl.constexpr, SPLIT: tl.constexpr, AT_ONCE: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, DIM)
    used = tl.load(position + row) // SPLIT + 1
    top, total = float("-inf"), 0.0
    mixed = tl.zeros((DIM,), tl.float32)
    # A fixed number at once: the order of the sum depends on the row's own length alone.
    for first in range(0, used, AT_ONCE):
        part = first + tl.arange(0, AT_ONCE)
        there = part < used
        at = (row * parts + part) * HEADS + head
        part_top = tl.load(weights + at * 2, mask=there, other=float("-inf"))
        part_total = tl.load(weights + at * 2 + 1, mask=there, other=0.0)
        part_mixed = tl.load(values + at[:, None] * DIM + d[None, :], mask=there[:, None], other=0.0)
        higher = tl.maximum(top, tl.max(part_top, 0))
        fade, share = tl.exp(top - higher), tl.exp(part_top - higher)
        total = total * fade + tl.sum(part_total * share, 0)
        mixed = mixed * fade + tl.sum(part_mixed * share[:, None], 0)
        top = higher
    tl.store(out + (row * HEADS + head) * DIM + d, (mixed / total).to(out.dtype.element_ty))
