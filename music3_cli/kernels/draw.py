"""The guided top-k Gumbel draw of the server scheme, from logits of two rows to one column, in one kernel.

The twin is `talker/sampling.py` with `randomness.gumbel`; this module holds the kernel alone.
"""

from __future__ import annotations

import torch

from music3_cli.kernels.triton_support import begin, jit, jit_for_any, overlap, tl, triton

WARPS = (4, 32)
"""For a residual codebook, and for the semantic one."""


def draw_columns(
    parts_PRV: torch.Tensor,
    dtype: torch.dtype,
    seed_S: torch.Tensor,
    step_S: torch.Tensor,
    draws_a_step: int,
    draw: int,
    guidance: float,
    top_k: int,
    conditional_mask: bool,
) -> torch.Tensor:
    """[S] int64 columns.

    Args:
        parts_PRV: the head's partial sums; rows 2s and 2s + 1 are song s, conditional and unconditional.
        dtype: what logits are rounded to, as the head would.
        seed_S, step_S: int64 talker seeds, and steps that the songs have behind them.
        draws_a_step, draw: a draw's position in its song's random numbers is step x draws_a_step + draw.
        conditional_mask: whether only the conditional row's `top_k` likeliest columns may be drawn.
    """
    parts, rows, columns = parts_PRV.shape
    out = torch.empty(rows // 2, device=parts_PRV.device, dtype=torch.int64)
    # Column 0, the song's end, is held apart: with it 16 385 columns would take the room of 32 768.
    width = triton.next_power_of_2(columns - conditional_mask)
    room = width + conditional_mask
    kept_columns = torch.empty(rows // 2, room, device=out.device, dtype=torch.int32)
    kept_logits = torch.empty(rows // 2, room, device=out.device, dtype=torch.float32)
    carrier = torch.empty(0, device=out.device, dtype=dtype)
    _draw_columns[(rows // 2,)](
        parts_PRV, seed_S, step_S, out, kept_columns, kept_logits, carrier, rows, columns,
        draws_a_step, draw, guidance, top_k,
        PARTS=parts, WIDTH=width, MASK=conditional_mask, LOW=16 if dtype == torch.bfloat16 else 0,
        AT_ONCE=64,
        num_warps=WARPS[width > 4096], **overlap(out),
        enable_fp_fusion=False,  # as plain torch rounds: a fused multiply-add would move ties
    )  # fmt: skip
    return out


@jit
def _ordered(values):
    """float32 as int32 of the same order."""
    bits = (values + 0.0).to(tl.int32, bitcast=True)  # -0.0 is as large as 0.0
    return tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)


@jit
def _at_least(keys, apart, least):
    return tl.sum((keys >= least).to(tl.int32), 0) + (apart >= least).to(tl.int32)


@jit
def _kth_largest(keys, apart, k, LOW: tl.constexpr):
    """The k-th largest of int32 keys and one more, found bit by bit from the highest; bits below LOW stay zero, which
    separates keys that differ above them as well.
    """
    # The sign first: int32's order has negative numbers below.
    found = tl.where(_at_least(keys, apart, 0) >= k, 0, -2147483648)
    for place in tl.static_range(0, 31 - LOW):
        candidate = found | (1 << (30 - place))
        found = tl.where(_at_least(keys, apart, candidate) >= k, candidate, found)
    return found


@jit
def _logits(parts, row, column, inside, dtype, rows, columns, PARTS: tl.constexpr):
    """One row's logits at some columns, as the head rounds them."""
    at = parts + row * columns + column
    total = tl.load(at, mask=inside, other=0.0)
    for part in tl.static_range(1, PARTS):
        total += tl.load(at + part * rows * columns, mask=inside, other=0.0)
    return total.to(dtype).to(tl.float32)


@jit
def _mixed(h, word):
    """One 32-bit word into a MurmurHash3 state."""
    k = word * 0xCC9E2D51
    k = (k << 15) | (k >> 17)
    h = h ^ (k * 0x1B873593)
    h = (h << 13) | (h >> 19)
    return h * 5 + 0xE6546B64


@jit
def _gumbel(word, place, column):
    """Noise hashed from a seed, a position and a column, float64; see `randomness.gumbel`."""
    h = tl.zeros_like(column).to(tl.uint32)
    h = _mixed(h, (word & 0xFFFFFFFF).to(tl.uint32))
    h = _mixed(h, ((word >> 32) & 0xFFFFFFFF).to(tl.uint32))
    h = _mixed(h, place.to(tl.uint32))
    h = _mixed(h, column.to(tl.uint32))
    h = h ^ 16
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    h = h ^ (h >> 16)
    log_u = tl.log(h.to(tl.float64) / 4294967295.0)
    log_u = tl.minimum(tl.maximum(log_u, -1.7976931348623157e308), -2.3283064365386963e-10)
    return -tl.log(-log_u)


@jit_for_any("rows", "draw")
def _draw_columns(
    parts, seed, step, out, kept_columns, kept_logits, dtype_of, rows, columns,
    draws, draw, guidance, top_k,
    PARTS: tl.constexpr, WIDTH: tl.constexpr, MASK: tl.constexpr, LOW: tl.constexpr,
    AT_ONCE: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    song = tl.program_id(0)
    column = tl.arange(0, WIDTH) + MASK
    inside = column < columns
    dtype = dtype_of.dtype.element_ty
    # The first choice: by the conditional row where it masks, else by the guided logits.
    first_choice = _logits(parts, 2 * song, column, inside, dtype, rows, columns, PARTS)
    if not MASK:
        unconditional = _logits(parts, 2 * song + 1, column, inside, dtype, rows, columns, PARTS)
        first_choice = unconditional + (first_choice - unconditional) * guidance
    nothing = -2147483648
    apart = tl.full((), nothing, tl.int32)
    if MASK:
        one = tl.arange(0, 1)
        apart = tl.max(_ordered(_logits(parts, 2 * song, one, one == 0, dtype, rows, columns, PARTS)), 0)
    keys = tl.where(inside, _ordered(first_choice), nothing)
    threshold = _kth_largest(keys, apart, top_k, LOW if MASK else 0)
    kept = inside & (keys >= threshold)
    with_apart = (apart >= threshold).to(tl.int32) * MASK

    # Few columns are left: they are put together, so that only they cost guidance, a second choice and logarithms.
    count = tl.sum(kept.to(tl.int32), 0) + with_apart
    base = song * (WIDTH + MASK)
    tl.store(kept_columns + base, 0, mask=with_apart > 0)
    at = base + with_apart + tl.cumsum(kept.to(tl.int32), 0) - 1
    tl.store(kept_columns + at, column, mask=kept)
    if not MASK:
        tl.store(kept_logits + at, first_choice, mask=kept)
    tl.debug_barrier()
    few = tl.arange(0, AT_ONCE)
    if MASK:
        for first in range(0, count, AT_ONCE):
            there = first + few < count
            candidate = tl.load(kept_columns + base + first + few, mask=there, other=0)
            conditional = _logits(parts, 2 * song, candidate, there, dtype, rows, columns, PARTS)
            unconditional = _logits(parts, 2 * song + 1, candidate, there, dtype, rows, columns, PARTS)
            guided = unconditional + (conditional - unconditional) * guidance
            tl.store(kept_logits + base + first + few, guided, mask=there)
        tl.debug_barrier()
    word = tl.load(seed + song)
    place = tl.load(step + song) * draws + draw
    best_score = tl.full((), float("-inf"), tl.float64)
    best_column = tl.full((), WIDTH + MASK, tl.int32)
    for first in range(0, count, AT_ONCE):
        there = first + few < count
        candidate = tl.load(kept_columns + base + first + few, mask=there, other=0)
        logit = tl.load(kept_logits + base + first + few, mask=there, other=float("-inf"))
        if MASK:
            # The k likeliest are those with fewer than k above them.
            above = tl.zeros((AT_ONCE,), tl.int32)
            for other in range(0, count, AT_ONCE):
                others = tl.load(kept_logits + base + other + few, mask=other + few < count, other=float("-inf"))
                above += tl.sum((others[None, :] > logit[:, None]).to(tl.int32), 1)
            there = there & (above < top_k)
        score = tl.where(there, logit.to(tl.float64) + _gumbel(word, place, candidate), float("-inf"))
        top = tl.max(score, 0)
        winner = tl.min(tl.where(score == top, candidate, WIDTH + MASK), 0)
        # Columns come in order, so of equal scores the first one stays, as argmax has it.
        best_column = tl.where(top > best_score, winner, best_column)
        best_score = tl.maximum(top, best_score)
    tl.store(out + song, best_column.to(tl.int64))
