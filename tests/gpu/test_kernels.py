"""Every kernel against its plain twin in float64, on random inputs of the full size's shapes and several seeds."""

from __future__ import annotations

import pytest
import torch

from music3_cli.kernels import attention, depth_attention, heads, linear, norm
from music3_cli.kernels.attention import attend
from music3_cli.kernels.depth_attention import depth_attend
from music3_cli.kernels.draw import draw_columns
from music3_cli.kernels.heads import heads_into_cache
from music3_cli.kernels.linear import gated_linear, linear_parts, sum_parts
from music3_cli.kernels.norm import add_norm
from music3_cli.kernels.rotary import rotary_tables
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


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch):
    """Runs a function with every kernel replaced by its twin."""

    def run(function, *arguments):
        with monkeypatch.context() as patch:
            for module in (linear, norm, heads, attention, depth_attention):
                patch.setattr(module, "use_kernel", lambda _: False)
            return function(*arguments)

    return run


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
def test_heads_into_cache(dtype: torch.dtype, twins) -> None:
    groups, query_heads, dim, room = 8, 32, 128, 900
    parts = normal(2, 4, (query_heads + 2 * groups) * dim)
    tables = tuple(t.to(dtype) for t in rotary_tables(torch.arange(room, device="cuda"), dim, 1e6))
    norms = (normal(dim, dtype=dtype), normal(dim, dtype=dtype))
    position = torch.tensor([3, 3, 800, 800], device="cuda")
    ours = tuple(torch.zeros(4, groups, room, dim, device="cuda", dtype=dtype) for _ in range(2))
    exact = tuple(torch.zeros(4, groups, room, dim, device="cuda", dtype=torch.float64) for _ in range(2))
    q = heads_into_cache(parts, norms, tables, position, ours, 1e-6)
    wide = (tuple(n.double() for n in norms), tuple(t.double() for t in tables))
    exact_q = twins(heads_into_cache, parts.double(), *wide, position, exact, 1e-6)
    for mine, theirs in ((q, exact_q), *zip(ours, exact, strict=True)):
        close(mine, theirs, 2 * RELATIVE[dtype])


@DTYPES
@pytest.mark.parametrize("length", [1, 64, 128, 129, 700, 4000])
def test_attend(dtype: torch.dtype, length: int, twins) -> None:
    rows, groups, query_heads, dim = 4, 8, 32, 128
    q = normal(rows, query_heads, dim, dtype=dtype)
    k, v = (normal(rows, groups, length + 50, dim, dtype=dtype) for _ in range(2))
    position = torch.tensor([length - 1, length - 1, length // 2, length // 2], device="cuda")
    exact = twins(attend, q.double(), k.double(), v.double(), position)
    ours = attend(q, k, v, position)
    close(ours, exact, RELATIVE[dtype])
    more_room = [torch.cat((t, normal(rows, groups, 3000, dim, dtype=dtype)), 2) for t in (k, v)]
    assert torch.equal(attend(q, *more_room, position), ours)


@DTYPES
def test_depth_attend(dtype: torch.dtype, twins) -> None:
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
            scores = candidates(sum_parts(parts, dtype)).double() + gumbel(seed, position, columns)
            drawn = draw_columns(parts, dtype, seed, position, 1.5, 50, mask)
            assert torch.equal(drawn, scores.argmax(-1))
