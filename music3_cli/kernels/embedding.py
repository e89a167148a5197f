"""From codes to the rows that a step takes in: one code's embedding, or a whole frame's feedback."""

from __future__ import annotations

import torch

from music3_cli.kernels.triton_support import begin, jit, overlap, tl, triton, use_kernel


def embed_code(code_S: torch.Tensor, table_VH: torch.Tensor, first: int, repeat: int) -> torch.Tensor:
    """[repeat x S, H]: row `first + code` of the table, `repeat` times for each song.

    Args:
        code_S: int64.
    """
    if not use_kernel(table_VH):
        return table_VH[code_S + first].repeat_interleave(repeat, 0)
    (songs,), hidden, code_S = code_S.shape, table_VH.shape[1], code_S.contiguous()
    out = table_VH.new_empty(repeat * songs, hidden)
    _embed_code[(songs,)](
        code_S, table_VH, out, first, hidden,
        REPEAT=repeat, WIDTH=triton.next_power_of_2(hidden), num_warps=8, **overlap(out),
    )  # fmt: skip
    return out


def embed_frame(
    codes_SC: torch.Tensor, semantic_VH: torch.Tensor, residual_WH: torch.Tensor, codes: int, repeat: int
) -> torch.Tensor:
    """[repeat x S, H] feedback of a frame: (E[c0] + sum of the residual embeddings) / sqrt(C).

    The sum of the residual ones is in float32; it, the whole sum and the quotient are rounded to the tables' dtype.

    Args:
        codes_SC: int64, C codebooks.
        residual_WH: the residual codebooks' tables, one behind the other, `codes` rows each.
    """
    songs, books = codes_SC.shape
    if not use_kernel(semantic_VH):
        firsts = torch.arange(books - 1, device=codes_SC.device) * codes
        summed_SH = residual_WH[codes_SC[:, 1:] + firsts].sum(1)
        return ((semantic_VH[codes_SC[:, 0]] + summed_SH) * books**-0.5).repeat_interleave(repeat, 0)
    hidden = semantic_VH.shape[1]
    out = semantic_VH.new_empty(repeat * songs, hidden)
    codes_SC = codes_SC.contiguous()
    _embed_frame[(songs,)](
        codes_SC, semantic_VH, residual_WH, out, codes, hidden, books**-0.5,
        BOOKS=books, REPEAT=repeat, WIDTH=triton.next_power_of_2(hidden), num_warps=8, **overlap(out),
        enable_fp_fusion=False,  # as plain torch rounds
    )  # fmt: skip
    return out


@jit
def _embed_code(
    code, table, out, first, hidden, REPEAT: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr
):  # fmt: skip
    begin(EARLY)
    song = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    inside = at < hidden
    row = tl.load(table + (tl.load(code + song) + first) * hidden + at, mask=inside, other=0.0)
    for copy in tl.static_range(0, REPEAT):
        tl.store(out + (song * REPEAT + copy) * hidden + at, row, mask=inside)


@jit
def _embed_frame(
    codes, semantic, residual, out, vocabulary, hidden, scale,
    BOOKS: tl.constexpr, REPEAT: tl.constexpr, WIDTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    begin(EARLY)
    song = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    inside = at < hidden
    dtype = out.dtype.element_ty
    total = tl.zeros((WIDTH,), tl.float32)
    for book in tl.static_range(1, BOOKS):
        row = tl.load(codes + song * BOOKS + book) + (book - 1) * vocabulary
        total += tl.load(residual + row * hidden + at, mask=inside, other=0.0).to(tl.float32)
    first = tl.load(semantic + tl.load(codes + song * BOOKS) * hidden + at, mask=inside, other=0.0).to(tl.float32)
    total = (first + total.to(dtype).to(tl.float32)).to(dtype).to(tl.float32)
    feedback = (total * scale).to(dtype)
    for copy in tl.static_range(0, REPEAT):
        tl.store(out + (song * REPEAT + copy) * hidden + at, feedback, mask=inside)
