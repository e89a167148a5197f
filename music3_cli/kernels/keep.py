"""What a step does with a finished frame: it goes to its place, and the song's counters and flags move on."""

from __future__ import annotations

import torch

from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton, use_kernel

RUNNING, ENDED, AT_CEILING, BROKEN = 0, 1, 2, 3
"""A song's outcome."""


def keep_frame(
    column_S: torch.Tensor,
    codes_SC: torch.Tensor,
    hiddens_SCH: torch.Tensor,
    counters: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    flags: tuple[torch.Tensor, torch.Tensor],
    kept: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    positions: int,
) -> torch.Tensor:
    """Keep a living song's frame and advance the song, in place.

    A song whose semantic column is 0 has ended and keeps nothing. The first step only leads past the prompt: its codes
    are kept apart as priming. A song at its limit dies with the frame that fills it. A song whose hiddens are not all
    finite is broken and keeps nothing more: what is drawn from them means nothing, an end least of all.

    Args:
        column_S: int64 columns of the semantic draw.
        codes_SC, hiddens_SCH: the frame.
        counters: int64 [S] position, step, frames and limit.
        flags: alive (bool) and outcome (int64), [S].
        kept: priming [S, C], codes [S, F + 1, C], hiddens [S, N + 1, C, H]; the last place takes what is not emitted.
            Frame f's hiddens are at f modulo N.
        positions: room of the cache; an idle song's position may be the first behind it.

    Returns:
        [2 S] int64, where the cache takes the frame's feedback, for both rows of each song.
    """
    (position_S, step_S, frames_S, limit_S), (alive_S, outcome_S) = counters, flags
    priming_SC, kept_codes_SFC, kept_hiddens_SNCH = kept
    songs, books, hidden = hiddens_SCH.shape
    behind, ring = kept_codes_SFC.shape[1] - 1, kept_hiddens_SNCH.shape[1] - 1
    if not use_kernel(hiddens_SCH):
        broken_S = alive_S & ~hiddens_SCH.isfinite().flatten(1).all(1)
        ended_S = alive_S & (column_S == 0) & ~broken_S
        going_S = alive_S & ~ended_S & ~broken_S
        emits_S = going_S & (step_S > 0)
        place_S = torch.where(emits_S, frames_S, behind)
        slot_S = torch.arange(songs, device=place_S.device)
        kept_codes_SFC[slot_S, place_S] = codes_SC.to(kept_codes_SFC.dtype)
        kept_hiddens_SNCH[slot_S, torch.where(emits_S, frames_S % ring, ring)] = hiddens_SCH
        priming_SC.copy_(torch.where((step_S == 0)[:, None], codes_SC.to(priming_SC.dtype), priming_SC))
        frames_S.add_(emits_S)
        full_S = going_S & (frames_S >= limit_S)
        outcome_S.copy_(torch.where(ended_S, ENDED, torch.where(full_S, AT_CEILING, outcome_S)))
        outcome_S.masked_fill_(broken_S, BROKEN)
        alive_S.copy_(going_S & ~full_S)
        position_R = position_S.clamp_max(positions - 1).repeat_interleave(2)
        position_S.add_(alive_S)
        step_S.add_(alive_S)
        return position_R
    position_R = torch.empty(2 * songs, device=column_S.device, dtype=torch.int64)
    _keep_frame[(songs,)](
        column_S, codes_SC, hiddens_SCH, *counters, *flags, *kept, position_R,
        hidden, behind, ring, positions, kept_codes_SFC.stride(0), kept_hiddens_SNCH.stride(0),
        BOOKS=books, ROOM=triton.next_power_of_2(books), WIDTH=triton.next_power_of_2(hidden),
        ENDED=ENDED, AT_CEILING=AT_CEILING, BROKEN=BROKEN, num_warps=8, **overlap(hiddens_SCH),
    )  # fmt: skip
    return position_R


@jit
def _keep_frame(
    column, codes, hiddens, position, step, frames, limit, alive, outcome, priming, kept_codes, kept_hiddens,
    position_out, hidden, behind, ring, positions, codes_stride, hiddens_stride,
    BOOKS: tl.constexpr, ROOM: tl.constexpr, WIDTH: tl.constexpr, ENDED: tl.constexpr, AT_CEILING: tl.constexpr,
    BROKEN: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    song = tl.program_id(0)
    was_alive = tl.load(alive + song).to(tl.int1)
    done, here, emitted = tl.load(step + song), tl.load(position + song), tl.load(frames + song)
    ended = was_alive & (tl.load(column + song) == 0)
    going = was_alive & ~ended
    emits = going & (done > 0)
    place = tl.where(emits, emitted, behind)

    book = tl.arange(0, ROOM)
    is_book = book < BOOKS
    frame = tl.load(codes + song * BOOKS + book, mask=is_book, other=0).to(tl.int32)
    tl.store(kept_codes + song * codes_stride + place * BOOKS + book, frame, mask=is_book)
    tl.store(priming + song * BOOKS + book, frame, mask=is_book & (done == 0))
    at = tl.arange(0, WIDTH)
    inside = at < hidden
    to = kept_hiddens + song.to(tl.int64) * hiddens_stride + tl.where(emits, emitted % ring, ring) * BOOKS * hidden
    faults = tl.zeros((WIDTH,), tl.int32)
    for index in tl.static_range(0, BOOKS):
        row = tl.load(hiddens + (song * BOOKS + index) * hidden + at, mask=inside, other=0.0)
        tl.store(to + index * hidden + at, row, mask=inside)
        faults += tl.where(tl.abs(row.to(tl.float32)) < float("inf"), 0, 1)  # numbers that are none compare as false
    broken = was_alive & (tl.max(faults, 0) > 0)
    ended = ended & ~broken
    going = going & ~broken
    emits = emits & ~broken  # its frame lies where the next one would, and does not count

    emitted += emits.to(tl.int64)
    full = going & (emitted >= tl.load(limit + song))
    lives = going & ~full
    before = tl.load(outcome + song)
    into = tl.minimum(here, positions - 1)
    tl.debug_barrier()  # every thread has read what is written now
    tl.store(frames + song, emitted)
    tl.store(outcome + song, tl.where(broken, BROKEN, tl.where(ended, ENDED, tl.where(full, AT_CEILING, before))))
    tl.store(alive + song, lives)
    tl.store(position_out + 2 * song, into)
    tl.store(position_out + 2 * song + 1, into)
    tl.store(position + song, here + lives.to(tl.int64))
    tl.store(step + song, done + lives.to(tl.int64))
