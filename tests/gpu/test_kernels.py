"""Every kernel against its plain twin in float64, on random inputs of the full size's shapes and several seeds."""

from __future__ import annotations

import pytest
import torch

from music3_cli.kernels.attention import HeadNorms, LayerCache, attend
from music3_cli.kernels.depth_attention import depth_attend
from music3_cli.kernels.draw import draw_columns
from music3_cli.kernels.embedding import embed_code, embed_frame
from music3_cli.kernels.keep import AT_CEILING, BROKEN, ENDED, RUNNING, keep_frame
from music3_cli.kernels.linear import gated_linear, linear_parts, sum_parts
from music3_cli.kernels.norm import add_norm
from music3_cli.kernels.rotary import rotary_tables
from music3_cli.kernels.triton_support import twins_only
from music3_cli.randomness import gumbel
from music3_cli.talker.sampling import residual_candidates, semantic_candidates
from tests.support.devices import NEEDS_CUDA

pytestmark = [*NEEDS_CUDA, pytest.mark.parametrize("seed", [0, 1, 2])]

DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
RELATIVE = {torch.bfloat16: 5e-3, torch.float32: 5e-6}
"""Of the norm. bf16 results are rounded once or twice to 8 bits, of which each gives up to 2e-3."""


@pytest.fixture(autouse=True)
def seeded(seed: int) -> None:
    torch.manual_seed(seed)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def close(ours: torch.Tensor, exact: torch.Tensor, bound: float) -> None:
    assert torch.isfinite(ours).all()
    assert ((ours.double() - exact).norm() / exact.norm()).item() < bound


def twins(function, *arguments):
    """Runs a function with every kernel replaced by its twin."""
    with twins_only():
        return function(*arguments)


@DTYPES
@pytest.mark.parametrize(("outputs", "inner"), [(6144, 4096), (4096, 12288), (16385, 4096), (1024, 4096), (300, 1024)])
def test_linear(dtype: torch.dtype, outputs: int, inner: int) -> None:
    weight = normal(outputs, inner, dtype=dtype) * 0.02
    for rows in (2, 6, 32, 64):
        x = normal(rows, inner, dtype=dtype)
        parts = linear_parts(x, weight)
        close(sum_parts(parts, torch.float32), x.double() @ weight.double().T, 2e-5)
        alone = linear_parts(x[:2].contiguous(), weight)
        assert torch.equal(parts[:, :2], alone)  # not a bit from the rows beside it


@DTYPES
def test_gated_linear(dtype: torch.dtype) -> None:
    weight = normal(2 * 6144, 4096, dtype=dtype) * 0.02
    x = normal(32, 4096, dtype=dtype)
    gate, up = (x.double() @ weight.double().T).chunk(2, -1)
    close(gated_linear(x, weight), torch.nn.functional.silu(gate) * up, RELATIVE[dtype])
    assert torch.equal(gated_linear(x, weight)[30:], gated_linear(x[30:].contiguous(), weight))


@DTYPES
def test_add_norm(dtype: torch.dtype) -> None:
    parts, residual, weight = normal(4, 6, 4096), normal(6, 4096, dtype=dtype), normal(4096, dtype=dtype)
    x, normed = add_norm(parts, residual, weight, 1e-6)
    exact = residual.double() + parts.double().sum(0)
    close(x, exact, RELATIVE[dtype])
    close(normed, exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + 1e-6) * weight.double(), RELATIVE[dtype])


@DTYPES
@pytest.mark.parametrize("length", [1, 2, 64, 65, 129, 700, 1024, 1025, 4000])
def test_attend(dtype: torch.dtype, length: int) -> None:
    rows, groups, query_heads, dim, room = 4, 8, 32, 128, length + 50
    parts = normal(2, rows, (query_heads + 2 * groups) * dim)
    norms = HeadNorms(normal(dim, dtype=dtype), normal(dim, dtype=dtype), 1e-6)
    tables = tuple(t.to(dtype) for t in rotary_tables(torch.arange(room + 3000, device="cuda"), dim, 1e6))
    position = torch.tensor([length - 1, length - 1, length // 2, length // 2], device="cuda")
    keys, values = (normal(rows, groups, room, dim, dtype=dtype) for _ in range(2))

    def cache(dtype: torch.dtype, more: int = 0) -> LayerCache:
        grown = [torch.cat((t, normal(rows, groups, more, dim, dtype=dtype)), 2).to(dtype) for t in (keys, values)]
        return LayerCache(*grown, torch.zeros(rows, groups, dtype=torch.int32, device="cuda"))

    ours, exact = cache(dtype), cache(torch.float64)
    wide = HeadNorms(norms.query_D.double(), norms.key_D.double(), norms.eps)
    attended = attend(parts, norms, tables, position, ours)
    whole = parts.sum(0, keepdim=True).to(dtype).double()
    exactly = twins(attend, whole, wide, tuple(t.double() for t in tables), position, exact)
    close(attended, exactly, 2 * RELATIVE[dtype])
    close(ours.keys_RGPD, exact.keys_RGPD, 2 * RELATIVE[dtype])
    close(ours.values_RGPD, exact.values_RGPD, RELATIVE[dtype])
    # Neither room nor rows beside it change a bit, nor does a second call.
    for again in (ours, cache(dtype, 3000)):
        assert torch.equal(attend(parts, norms, tables, position, again), attended)
    alone = LayerCache(*(t[2:].contiguous() for t in (keys, values)), ours.arrived_RG[2:])
    assert torch.equal(attend(parts[:, 2:].contiguous(), norms, tables, position[2:], alone), attended[2:])
    assert not ours.arrived_RG.any()


@DTYPES
def test_depth_attend(dtype: torch.dtype) -> None:
    rows, query_heads, dim = 6, 16, 256
    ours = torch.zeros(2, rows, query_heads, 8, dim, device="cuda", dtype=dtype)
    exact = ours.double()
    for first, count in ((0, 2), (2, 1), (3, 1), (7, 1)):
        parts = normal(2, count * rows, 3 * query_heads * dim)
        whole = parts.sum(0, keepdim=True).to(dtype).double()
        close(depth_attend(parts, ours, first, count), twins(depth_attend, whole, exact, first, count), RELATIVE[dtype])


@DTYPES
@pytest.mark.parametrize("columns", [1024, 16385])
def test_draws_are_those_of_the_twin(dtype: torch.dtype, columns: int) -> None:
    for ties in (False, True):
        parts = normal(1 if columns > 1024 else 8, 12, columns) * 2.5
        parts = parts.round() if ties else parts
        seed = torch.randint(0, 2**31, (6,), device="cuda")
        position = torch.randint(0, 72_000, (6,), device="cuda")
        for mask, candidates in ((True, semantic_candidates), (False, residual_candidates)):
            scores = candidates(sum_parts(parts, dtype)).double() + gumbel(seed, position // 8 * 8 + 3, columns)
            drawn = draw_columns(parts, dtype, seed, position // 8, 8, 3, 1.5, 50, mask)
            assert torch.equal(drawn, scores.argmax(-1))


@DTYPES
def test_embeddings(dtype: torch.dtype) -> None:
    semantic, residual = normal(16384, 4096, dtype=dtype), normal(7 * 1024, 4096, dtype=dtype)
    codes = torch.randint(0, 1024, (5, 8), device="cuda")
    assert torch.equal(embed_code(codes[:, 2], residual, 1024, 2), twins(embed_code, codes[:, 2], residual, 1024, 2))
    exact = twins(embed_frame, codes, semantic.double(), residual.double(), 1024, 2)
    close(embed_frame(codes, semantic, residual, 1024, 2), exact, RELATIVE[dtype])


def test_keep_frame() -> None:
    songs, frames, hidden = 7, 4, 4096
    column = torch.tensor([3, 0, 5, 5, 0, 9, 0], device="cuda")
    codes = torch.randint(0, 1024, (songs, 8), device="cuda")
    hiddens = normal(songs, 8, hidden, dtype=torch.bfloat16)
    hiddens[6, 3, 77] = torch.nan

    def state() -> tuple[torch.Tensor, ...]:
        numbers = ([7, 8, 9, 10, 11, 20, 9], [0, 3, 3, 3, 0, 2, 3], [0, 2, 2, 3, 0, 1, 2], [4, 4, 4, 4, 4, 2, 4])
        counters = tuple(torch.tensor(row, device="cuda") for row in numbers)
        alive = torch.tensor([True, True, True, True, False, True, True], device="cuda")
        kept = (
            torch.zeros(songs, 8, dtype=torch.int32, device="cuda"),
            torch.zeros(songs, frames + 1, 8, dtype=torch.int32, device="cuda"),
            torch.zeros(songs, frames + 1, 8, hidden, dtype=torch.bfloat16, device="cuda"),
        )
        return counters, (alive, torch.full((songs,), RUNNING, device="cuda")), kept

    ours, theirs = state(), state()
    positions = keep_frame(column, codes, hiddens, *ours, 15)
    assert torch.equal(positions, twins(keep_frame, column, codes, hiddens, *theirs, 15))
    for mine, twin in zip(ours, theirs, strict=True):
        for a, b in zip(mine, twin, strict=True):
            # The place behind the last takes what is not emitted; of a broken song only the counters mean something.
            assert torch.equal(a[:6, :frames] if a.ndim > 2 else a, b[:6, :frames] if b.ndim > 2 else b)
    assert ours[1][1].tolist() == [RUNNING, ENDED, RUNNING, AT_CEILING, RUNNING, AT_CEILING, BROKEN]
