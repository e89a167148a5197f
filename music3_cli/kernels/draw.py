"""The guided top-k Gumbel draw of the server scheme, from logits of two rows to one column, in one kernel.

The twin is `talker/sampling.py` with `randomness.gumbel`; this module holds the kernel alone.
"""

from __future__ import annotations

import torch

from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton

WARPS = (4, 32)
"""For a residual codebook, and for the semantic one."""


def draw_columns(
    parts_PRV: torch.Tensor,
    dtype: torch.dtype,
    seed_S: torch.Tensor,
    position_S: torch.Tensor,
    guidance: float,
    top_k: int,
    conditional_mask: bool,
) -> torch.Tensor:
    """[S] int64 columns.

    Args:
        parts_PRV: the head's partial sums; rows 2s and 2s + 1 are song s, conditional and unconditional.
        dtype: what logits are rounded to, as the head would.
        seed_S, position_S: int64 talker seeds and draw positions.
        conditional_mask: whether only the conditional row's `top_k` likeliest columns may be drawn.
    """
    parts, rows, columns = parts_PRV.shape
    out = torch.empty(rows // 2, device=parts_PRV.device, dtype=torch.int64)
    width = triton.next_power_of_2(columns)
    kept_columns = torch.empty(rows // 2, width, device=out.device, dtype=torch.int32)
    kept_logits = torch.empty(rows // 2, width, device=out.device, dtype=torch.float32)
    carrier = torch.empty(0, device=out.device, dtype=dtype)
    _draw_columns[(rows // 2,)](
        parts_PRV, seed_S, position_S, out, kept_columns, kept_logits, carrier, rows, columns, guidance, top_k,
        PARTS=parts, WIDTH=width, MASK=conditional_mask, LOW=16 if dtype == torch.bfloat16 else 0,
        AT_ONCE=128,
        num_warps=WARPS[width > 4096], **overlap(out),
        enable_fp_fusion=False,  # as plain torch rounds: a fused multiply-add would move ties
    )  # fmt: skip
    return out


@jit
def _ordered(values):
    """float32 as int32 of the same order."""
    bits = values.to(tl.int32, bitcast=True)
    return tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)


@jit
def _kth_largest(keys, k, LOW: tl.constexpr):
    """The k-th largest of int32 keys, found bit by bit from the highest; bits below LOW stay zero, which separates keys
    that differ above them as well.
    """
    # The sign first: int32's order has negative numbers below.
    found = tl.where(tl.sum((keys >= 0).to(tl.int32), 0) >= k, 0, -2147483648)
    for place in tl.static_range(0, 31 - LOW):
        candidate = found | (1 << (30 - place))
        found = tl.where(tl.sum((keys >= candidate).to(tl.int32), 0) >= k, candidate, found)
    return found


@jit
def _mixed(h, word):
    """One 32-bit word into a MurmurHash3 state."""
    k = word * 0xCC9E2D51
    k = (k << 15) | (k >> 17)
    h = h ^ (k * 0x1B873593)
    h = (h << 13) | (h >> 19)
    return h * 5 + 0xE6546B64


@jit
def _draw_columns(
    parts, seed, position, out, kept_columns, kept_logits, dtype_of, rows, columns, guidance, top_k,
    PARTS: tl.constexpr, WIDTH: tl.constexpr, MASK: tl.constexpr, LOW: tl.constexpr,
    AT_ONCE: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    song = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    inside = column < columns
    dtype = dtype_of.dtype.element_ty
    at = parts + 2 * song * columns + column
    conditional = tl.load(at, mask=inside, other=0.0)
    unconditional = tl.load(at + columns, mask=inside, other=0.0)
    for part in tl.static_range(1, PARTS):
        conditional += tl.load(at + part * rows * columns, mask=inside, other=0.0)
        unconditional += tl.load(at + part * rows * columns + columns, mask=inside, other=0.0)
    conditional = conditional.to(dtype).to(tl.float32)
    unconditional = unconditional.to(dtype).to(tl.float32)
    guided = unconditional + (conditional - unconditional) * guidance
    lowest = -2147483648
    if MASK:
        keys = tl.where(inside, _ordered(conditional), lowest)
        inside = inside & (keys >= _kth_largest(keys, top_k, LOW))
    keys = tl.where(inside, _ordered(guided), lowest)
    kept = inside & (keys >= _kth_largest(keys, top_k, 0))

    # Few columns are left: they are put together, so that only they cost logarithms.
    count = tl.sum(kept.to(tl.int32), 0)
    order = tl.cumsum(kept.to(tl.int32), 0) - 1
    base = song * WIDTH
    tl.store(kept_columns + base + order, column, mask=kept)
    tl.store(kept_logits + base + order, guided, mask=kept)
    tl.debug_barrier()
    word = tl.load(seed + song)
    place = tl.load(position + song)
    best_score = tl.full((), float("-inf"), tl.float64)
    best_column = tl.full((), WIDTH, tl.int32)
    for first in range(0, count, AT_ONCE):
        at_once = first + tl.arange(0, AT_ONCE)
        there = at_once < count
        candidate = tl.load(kept_columns + base + at_once, mask=there, other=0)
        logit = tl.load(kept_logits + base + at_once, mask=there, other=float("-inf"))
        h = tl.zeros((AT_ONCE,), tl.uint32)
        h = _mixed(h, (word & 0xFFFFFFFF).to(tl.uint32))
        h = _mixed(h, ((word >> 32) & 0xFFFFFFFF).to(tl.uint32))
        h = _mixed(h, place.to(tl.uint32))
        h = _mixed(h, candidate.to(tl.uint32))
        h = h ^ 16
        h = (h ^ (h >> 16)) * 0x85EBCA6B
        h = (h ^ (h >> 13)) * 0xC2B2AE35
        h = h ^ (h >> 16)
        log_u = tl.log(h.to(tl.float64) / 4294967295.0)
        log_u = tl.minimum(tl.maximum(log_u, -1.7976931348623157e308), -2.3283064365386963e-10)
        score = tl.where(there, logit.to(tl.float64) - tl.log(-log_u), float("-inf"))
        top = tl.max(score, 0)
        winner = tl.min(tl.where(score == top, candidate, WIDTH), 0)
        # Columns come in order, so of equal scores the first one stays, as argmax has it.
        best_column = tl.where(top > best_score, winner, best_column)
        best_score = tl.maximum(top, best_score)
    tl.store(out + song, best_column.to(tl.int64))
