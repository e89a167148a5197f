"""Products of a few rows with a large weight, which are read once: the talker's time is the reading of its weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from music3_cli.kernels.quantized import Int8Matrix, Matrix
from music3_cli.kernels.triton_support import (
    gdc_launch_dependents,
    gdc_wait,
    jit_for_any,
    overlap,
    tl,
    triton,
    use_kernel,
)

MOST_ROWS = 64
"""With more rows a product is no longer the reading of its weight, and cuBLAS does it."""


@dataclass(frozen=True)
class Tiling:
    """How a product of one shape is cut. Part of the arithmetic: the same for every number of rows.

    Attributes:
        columns: weight rows a program.
        depth: inner elements a step.
        parts: programs that share one output column's sum.
    """

    columns: int
    depth: int
    parts: int = 1
    warps: int = 4
    stages: int = 4


def tiling(outputs: int, inner: int, itemsize: int) -> Tiling:
    """Enough programs to keep every multiprocessor reading: about 256, by splitting the sum where outputs are few."""
    columns = 64 if outputs > 2048 else 32
    parts = 1
    while parts < 8 and (outputs // columns) * parts < 160 and inner // (2 * parts) >= 512:
        parts *= 2
    return Tiling(columns, _step_of(inner // parts, {1: 256, 2: 128}.get(itemsize, 64)), parts)


def gated_tiling(inner: int, itemsize: int) -> Tiling:
    """As `tiling`, for two products in one program."""
    return Tiling(32, _step_of(inner, {1: 256, 2: 128}.get(itemsize, 32)))


def _step_of(share: int, most: int) -> int:
    """The largest power of two up to `most` that divides `share`."""
    return min(most, share & -share)


LEAST_STEP = 16
"""Tensor cores take no fewer inner elements; other sizes go to cuBLAS."""


def linear_parts(x_RK: torch.Tensor, weight_NK: Matrix) -> torch.Tensor:
    """x weight^T as partial sums [parts, R, N] float32; the consumer adds them in order (`sum_parts`).

    The twin has one part. Of an int8 matrix the whole numbers are multiplied, and the sums scaled.
    """
    (rows, inner), outputs = x_RK.shape, len(weight_NK)
    values_NK, scale_N = _values_and_scale(weight_NK)
    if not _takes(rows, inner, x_RK):
        total_RN = F.linear(x_RK, values_NK.to(x_RK.dtype)).float()
        return (total_RN if scale_N is None else total_RN * scale_N)[None]
    cut = tiling(outputs, inner, _size_read(values_NK, x_RK))
    out = torch.empty(cut.parts, rows, outputs, device=x_RK.device, dtype=torch.float32)
    _linear_parts[(triton.cdiv(outputs, cut.columns), cut.parts)](
        x_RK,
        values_NK,
        scale_N,
        out,
        rows,
        outputs,
        inner,
        inner // cut.parts,
        **_shape(cut, rows, x_RK),
    )
    return out


def sum_parts(parts_PRN: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The product in `dtype`, for consumers that are no kernels."""
    total = parts_PRN[0]
    for part in parts_PRN[1:]:
        total = total + part
    return total.to(dtype)


def gated_linear(x_RK: torch.Tensor, gate_up_NK: Matrix) -> torch.Tensor:
    """SiLU(x gate^T) * (x up^T), [R, I], for a weight of gate rows, then up rows. Both products and SiLU are rounded to
    x's dtype before they are multiplied.
    """
    (rows, inner), outputs = x_RK.shape, len(gate_up_NK) // 2
    values_NK, scale_N = _values_and_scale(gate_up_NK)
    if not _takes(rows, inner, x_RK):
        both = F.linear(x_RK, values_NK.to(x_RK.dtype))
        gate, up = (both if scale_N is None else (both.float() * scale_N).to(x_RK.dtype)).chunk(2, -1)
        return F.silu(gate) * up
    cut = gated_tiling(inner, _size_read(values_NK, x_RK))
    out = torch.empty(rows, outputs, device=x_RK.device, dtype=x_RK.dtype)
    _gated_linear[(triton.cdiv(outputs, cut.columns),)](
        x_RK, values_NK, scale_N, out, rows, outputs, inner, **_shape(cut, rows, x_RK)
    )
    return out


def _size_read(values_NK: torch.Tensor, x_RK: torch.Tensor) -> int:
    """Bytes an element by which steps are sized: the weight's, but float32 inputs fill the fast memory themselves."""
    return max(values_NK.element_size(), 4 if x_RK.element_size() == 4 else 1)


def _values_and_scale(weight: Matrix) -> tuple[torch.Tensor, torch.Tensor | None]:
    if isinstance(weight, Int8Matrix):
        return weight.values_NK, weight.scale_N
    return weight, None


def _takes(rows: int, inner: int, x: torch.Tensor) -> bool:
    return use_kernel(x) and rows <= MOST_ROWS and inner % LEAST_STEP == 0


def _shape(cut: Tiling, rows: int, x: torch.Tensor) -> dict[str, int | bool]:
    """A kernel's compile-time numbers and launch options."""
    return {
        "ROWS": max(16, triton.next_power_of_2(rows)),
        "COLUMNS": cut.columns,
        "DEPTH": cut.depth,
        "num_warps": cut.warps,
        "num_stages": cut.stages,
        **overlap(x),
    }


@jit_for_any("rows")
def _linear_parts(
    x, weight, scale, out, rows, outputs, inner, share,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.program_id(1)
    row = tl.arange(0, ROWS)
    k = part * share + tl.arange(0, DEPTH)
    w_row = weight + tl.minimum(column, outputs - 1)[:, None].to(tl.int64) * inner
    if EARLY:
        gdc_wait()
    w_at = w_row + k[None, :]
    x_at = x + row[None, :] * inner + k[:, None]
    in_rows = row[None, :] < rows
    # The weight is the left operand: its rows fill the tensor cores, the few rows of x are the narrow side.
    total = tl.zeros((COLUMNS, ROWS), tl.float32)
    for _ in range(0, share, DEPTH):
        v = tl.load(x_at, mask=in_rows, other=0.0)
        w = tl.load(w_at).to(v.dtype)  # whole numbers to 127 are exact in any of x's dtypes
        total = tl.dot(w, v, total, input_precision="ieee")
        w_at += DEPTH
        x_at += DEPTH
    if EARLY:
        gdc_launch_dependents()
    if scale is not None:
        total *= tl.load(scale + tl.minimum(column, outputs - 1))[:, None]
    at = out + (part * rows + row[None, :]) * outputs + column[:, None]
    tl.store(at, total, mask=(column[:, None] < outputs) & in_rows)


@jit_for_any("rows")
def _gated_linear(
    x, weight, scale, out, rows, outputs, inner,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    k = tl.arange(0, DEPTH)
    gate_row = weight + tl.minimum(column, outputs - 1)[:, None].to(tl.int64) * inner
    up_row = gate_row + outputs.to(tl.int64) * inner
    if EARLY:
        gdc_wait()
    gate_at, up_at = gate_row + k[None, :], up_row + k[None, :]
    x_at = x + row[None, :] * inner + k[:, None]
    in_rows = row[None, :] < rows
    gate = tl.zeros((COLUMNS, ROWS), tl.float32)
    up = tl.zeros((COLUMNS, ROWS), tl.float32)
    for _ in range(0, inner, DEPTH):
        v = tl.load(x_at, mask=in_rows, other=0.0)
        g = tl.load(gate_at).to(v.dtype)
        u = tl.load(up_at).to(v.dtype)
        gate = tl.dot(g, v, gate, input_precision="ieee")
        up = tl.dot(u, v, up, input_precision="ieee")
        gate_at += DEPTH
        up_at += DEPTH
        x_at += DEPTH
    if EARLY:
        gdc_launch_dependents()
    dtype = out.dtype.element_ty
    if scale is not None:
        of = scale + tl.minimum(column, outputs - 1)
        gate *= tl.load(of)[:, None]
        up *= tl.load(of + outputs)[:, None]
    gate, up = gate.to(dtype).to(tl.float32), up.to(dtype)
    silu = (gate / (1.0 + tl.exp(-gate))).to(dtype)
    tl.store(out + row[None, :] * outputs + column[:, None], silu * up, mask=(column[:, None] < outputs) & in_rows)
