"""Can the flow transformer's matrix products be faster than cuBLAS's? Triton products with split sums and with the
gated unit inside, over a list of tilings, against cuBLAS on the same shapes. Needs a Hopper GPU; takes a few minutes.

Usage: python3 benchmarks/products.py [--rows 1380]
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from music3_cli.cli.console import data
from music3_cli.devices import arithmetic

INNER, WIDE = 2048, 8192
WEIGHTS = 4
"""Weights that take turns, so that none is still in a cache."""


@triton.jit
def product(
    x, weight, out, bias, rows, outputs, steps,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, PARTS: tl.constexpr, GROUP: tl.constexpr,
    GATED: tl.constexpr,
):  # fmt: skip
    """x [rows, inner] weight^T, to `out` [PARTS, rows, outputs]; with GATED the weight has 2 x outputs rows."""
    place, part = tl.program_id(0), tl.program_id(1)
    row_tiles, column_tiles = tl.cdiv(rows, ROWS), tl.cdiv(outputs, COLUMNS)
    # Neighbouring programs share rows of the weight while these are in the cache.
    first = place // (GROUP * row_tiles) * GROUP
    width = tl.minimum(column_tiles - first, GROUP)
    inside = place % (GROUP * row_tiles)
    column, row = (first + inside % width) * COLUMNS, inside // width * ROWS
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    gate = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(part * steps // PARTS, (part + 1) * steps // PARTS):
        a = x.load([row, step * DEPTH])
        total = tl.dot(a, weight.load([column, step * DEPTH]).T, total, input_precision="tf32")
        if GATED:
            gate = tl.dot(a, weight.load([outputs + column, step * DEPTH]).T, gate, input_precision="tf32")
    at_row, at_column = row + tl.arange(0, ROWS), column + tl.arange(0, COLUMNS)
    if GATED:
        total += tl.load(bias + at_column)[None, :]
        gate += tl.load(bias + outputs + at_column)[None, :]
        total = total * (gate / (1.0 + tl.exp(-gate)))
    at = out + (part * rows + at_row[:, None]).to(tl.int64) * outputs + at_column[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=(at_row < rows)[:, None])


def microseconds(run: Callable[[], object], repeats: int = 10) -> float:
    """Of one product, in a graph: without the host's time."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    before, after = torch.cuda.Event(True), torch.cuda.Event(True)
    before.record()
    for _ in range(repeats):
        graph.replay()
    after.record()
    torch.cuda.synchronize()
    return before.elapsed_time(after) / repeats / WEIGHTS * 1000


def candidates(gated: bool, depth: int, most_parts: int) -> list[dict[str, int]]:
    plain = [(128, 256, 8), (256, 128, 8), (128, 128, 8), (128, 128, 4), (64, 256, 4)]
    tiles = [(128, 128, 8), (128, 64, 8), (128, 64, 4), (64, 128, 4)] if gated else plain
    return [
        {"ROWS": r, "COLUMNS": c, "DEPTH": depth, "PARTS": parts, "num_warps": warps, "num_stages": stages}
        for (r, c, warps), parts, stages in itertools.product(tiles, range(1, most_parts + 1), (3, 4))
    ]


def measure(name: str, rows: int, outputs: int, inner: int, dtype: torch.dtype, gated: bool) -> None:
    x = torch.randn(rows, inner, device="cuda").to(dtype)
    count = 2 * outputs if gated else outputs
    weights = [(0.02 * torch.randn(count, inner, device="cuda")).to(dtype) for _ in range(WEIGHTS)]
    bias = torch.randn(count, device="cuda")
    theirs = microseconds(lambda: [F.linear(x, w) for w in weights])
    exact = x.double() @ weights[0].double().T
    if gated:
        value, gate = (exact + bias).chunk(2, -1)
        exact = value * F.silu(gate)
    found = []
    for cut in candidates(gated, 128 // x.element_size(), 4 if outputs <= INNER else 1):
        parts = cut["PARTS"]
        out = torch.empty(parts, rows, outputs, device="cuda", dtype=dtype if parts == 1 else torch.float32)
        grid = (triton.cdiv(rows, cut["ROWS"]) * triton.cdiv(outputs, cut["COLUMNS"]), parts)
        tall = TensorDescriptor.from_tensor(x, [cut["ROWS"], cut["DEPTH"]])
        wide = [TensorDescriptor.from_tensor(w, [cut["COLUMNS"], cut["DEPTH"]]) for w in weights]
        steps = inner // cut["DEPTH"]

        def run(cut=cut, out=out, grid=grid, tall=tall, wide=wide, steps=steps) -> None:
            for w in wide:
                product[grid](tall, w, out, bias, rows, outputs, steps, GROUP=8, GATED=gated, **cut)

        try:
            took = microseconds(run, 5)
        except Exception:  # a tiling that does not fit into shared memory
            continue
        product[grid](tall, wide[0], out, bias, rows, outputs, steps, GROUP=8, GATED=gated, **cut)
        error = ((out.double().sum(0) - exact).norm() / exact.norm()).item()
        # What the reader of the parts reads more than one product in the inputs' dtype.
        more = (4 * parts - x.element_size()) * rows * outputs / 4e12 * 1e6 if parts > 1 else 0.0
        found.append((took + more, took, error, cut))
    flops = 2 * rows * count * inner
    data(f"{name} {dtype}: cuBLAS {theirs:.1f} us, {flops / theirs / 1e6:.0f} TFLOP/s")
    for cost, took, error, cut in sorted(found, key=lambda item: item[0])[:3]:
        data(f"    {took:.1f} us ({cost:.1f} with its reader), {flops / took / 1e6:.0f} TFLOP/s, {error:.1e}, {cut}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rows", type=int, default=1380)
options = parser.parse_args()
with torch.inference_mode(), arithmetic(tf32=True):
    for kind in (torch.float16, torch.float32):
        measure("out", options.rows, INNER, INNER, kind, False)
        measure("ff_out", options.rows, INNER, WIDE, kind, False)
        measure("qkv", options.rows, 3 * INNER, INNER, kind, False)
        measure("ff_in with gate", options.rows, WIDE, INNER, kind, True)
