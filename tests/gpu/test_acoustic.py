"""The acoustic stage on CUDA: kernels against float64, policies against fp32, repeatable bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from music3_cli.acoustic.engine import AcousticEngine, Redone, Sound
from music3_cli.acoustic.graphs import VelocityGraphs
from music3_cli.acoustic.precision import precision_on
from music3_cli.devices import arithmetic
from music3_cli.kernels.full_attention import full_attention
from music3_cli.kernels.gate import gate
from music3_cli.kernels.layer_norm import add_layer_norm, layer_norm
from music3_cli.kernels.rotary import rotary_tables
from music3_cli.kernels.snake import snake, sum_and_snake
from music3_cli.kernels.split_heads import split_heads
from music3_cli.kernels.tf32 import rounded_to_tf32, rounding_pays
from music3_cli.kernels.triton_support import twins_only, use_kernel
from music3_cli.randomness import ServerRandomness
from tests.support.devices import NEEDS_CUDA
from tests.support.stages import Stages, load_stages

pytestmark = NEEDS_CUDA

SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])
DTYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["fp16", "fp32"])
RELATIVE = {torch.float16: 5e-4, torch.float32: 5e-6}
"""Of the norm. float16 results are rounded once, to 11 bits."""


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def close(ours: torch.Tensor, exact: torch.Tensor, bound: float) -> None:
    assert ours.shape == exact.shape and torch.isfinite(ours).all()
    assert ((ours.double() - exact).norm() / exact.norm()).item() < bound


def doubled(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.double() for tensor in tensors)


@SEEDS
@DTYPES
def test_layer_norms(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    x, product, bias = normal(2, 690, 2048) + 3, normal(2, 690, 2048, dtype=dtype), normal(2048)
    affine = normal(2048), normal(2048)
    assert use_kernel(x)
    ours = layer_norm(x, affine, 1e-5, dtype), *add_layer_norm(x, product, bias, affine, 1e-5, dtype)
    with twins_only():
        wide = torch.float64
        exact_x, exact_product, exact_bias = doubled(x, product, bias)
        exact = (
            layer_norm(exact_x, doubled(*affine), 1e-5, wide),
            *add_layer_norm(exact_x, exact_product, exact_bias, doubled(*affine), 1e-5, wide),
        )
    for mine, theirs, kind in zip(ours, exact, (dtype, torch.float32, dtype), strict=True):
        assert mine.dtype == kind
        close(mine, theirs, RELATIVE[kind])


@SEEDS
@pytest.mark.parametrize(("outputs", "inner"), [(6144, 2048), (2048, 2048), (16384, 2048), (2048, 8192)])
def test_tf32_products_round_as_we_do(seed: int, outputs: int, inner: int) -> None:
    """A released block's products of a full window."""
    if not rounding_pays(torch.device("cuda")):
        pytest.skip("nothing is rounded beforehand on this GPU")
    torch.manual_seed(seed)
    x, matrix = normal(1380, inner), normal(outputs, inner)
    with arithmetic(tf32=True):
        product = torch.nn.functional.linear(x, matrix)
        rounded = torch.nn.functional.linear(rounded_to_tf32(x), rounded_to_tf32(matrix))
    assert torch.equal(product, rounded)


@pytest.mark.parametrize("kernel", ["norm", "norm behind a sum", "gate", "attention"])
def test_what_kernels_give_to_products_is_rounded(kernel: str) -> None:
    """To the nearest TF32 number. Unrounded, a kernel is compiled anew, and float32's last bits may be others."""
    torch.manual_seed(0)
    x, product, affine = normal(2, 690, 2048), normal(2, 690, 2048), (normal(2048), normal(2048))
    inner, bias = normal(2, 690, 2 * 8192), normal(2 * 8192)
    heads = tuple(normal(2, 32, 690, 64, dtype=torch.float16) for _ in range(3))

    def operand(tf32: bool) -> torch.Tensor:
        match kernel:
            case "norm":
                return layer_norm(x, affine, 1e-5, torch.float32, tf32)
            case "norm behind a sum":
                return add_layer_norm(x, product, None, affine, 1e-5, torch.float32, tf32)[1]
            case "gate":
                return gate(inner, bias, tf32)
        return full_attention(*heads, torch.float32, tf32)

    rounded, exact = operand(True), operand(False)
    assert torch.equal(rounded, rounded_to_tf32(rounded))
    assert ((rounded - exact).abs() <= 2**-11 * exact.abs() + 2e-6).all()
    # Had they been cut off instead, the mean would be off by half a step.
    assert ((rounded - exact) * exact.sign()).double().mean().abs() < 2**-15 * exact.abs().double().mean()


@pytest.mark.parametrize("faulty", [False, True])
def test_rounded_matrices_change_no_bit(demo_root: Path, faulty: bool) -> None:
    """Rounded for good, or in copies; nor where windows are solved again, in fp32."""
    sounds = []
    for only_tf32 in (False, True):
        stages = load_stages(demo_root, "cuda")
        if faulty:
            with torch.inference_mode():
                stages.acoustic.transformer.blocks[0].qkv[:64] *= 1e5
        models = stages.acoustic.condition, stages.acoustic.transformer, stages.acoustic.vocoder
        engine = AcousticEngine(*models, only_tf32=only_tf32)
        parts = list(engine.run(hiddens_of(stages, 3, 230), ServerRandomness(3), 3, precision="tf32"))
        assert any(isinstance(part, Redone) for part in parts) == faulty
        sounds.append(torch.cat([part.wait() for part in parts if isinstance(part, Sound)], 1))
    assert torch.equal(*sounds)


@SEEDS
@DTYPES
@pytest.mark.parametrize("out", [torch.float16, torch.float32], ids=["to fp16", "to fp32"])
def test_split_heads(seed: int, dtype: torch.dtype, out: torch.dtype) -> None:
    torch.manual_seed(seed)
    product = normal(2, 345, 3 * 2048, dtype=dtype)
    tables = rotary_tables(torch.arange(345, device="cuda"), 32, 1e4)
    with twins_only():
        exact = split_heads(product.double(), doubled(*tables), 64, torch.float64)
    for mine, theirs in zip(split_heads(product.clone(), tables, 64, out), exact, strict=True):
        assert mine.dtype == out
        close(mine, theirs, RELATIVE[torch.float16 if torch.float16 in (dtype, out) else dtype])


@SEEDS
@DTYPES
@pytest.mark.parametrize("length", [1, 64, 101, 690])
def test_full_attention(seed: int, dtype: torch.dtype, length: int) -> None:
    torch.manual_seed(seed)
    qkv = normal(2, length, 3 * 32 * 64, dtype=torch.float16)
    heads = tuple(part.unflatten(-1, (-1, 64)).transpose(1, 2) for part in qkv.chunk(3, -1))
    exact = torch.nn.functional.scaled_dot_product_attention(*doubled(*heads)).transpose(1, 2).flatten(2)
    close(full_attention(*heads, dtype), exact, 1e-3)  # the weights are rounded to 11 bits


@SEEDS
@DTYPES
def test_gate(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    product, bias = normal(2, 690, 2 * 8192, dtype=dtype) * 3, normal(2 * 8192)
    with twins_only():
        exact = gate(*doubled(product, bias))
    close(gate(product, bias), exact, RELATIVE[dtype])


@SEEDS
@pytest.mark.parametrize("samples", [1, 1023, 1024, 20_000])
def test_snakes(seed: int, samples: int) -> None:
    torch.manual_seed(seed)
    product, residual = normal(2, 96, samples) * 4, normal(2, 96, samples)
    bias, alpha = normal(96), torch.rand(96, device="cuda") * 3 + 0.05
    with twins_only():
        exact = snake(*doubled(product, bias, alpha)), *sum_and_snake(*doubled(product, bias, alpha, residual))
    ours = snake(product, bias, alpha), *sum_and_snake(product, bias, alpha, residual)
    for mine, theirs in zip(ours, exact, strict=True):
        close(mine, theirs, RELATIVE[torch.float32])
    assert torch.equal(snake(product, bias, alpha, residual), ours[2])


@pytest.fixture(scope="module")
def on_cuda(demo_root: Path) -> Stages:
    return load_stages(demo_root, "cuda")


def hiddens_of(stages: Stages, seed: int, frames: int = 330) -> torch.Tensor:
    config = stages.checkpoint.architecture.condition
    width = config.num_condition_layers * config.condition_hidden_dim
    return torch.randn(frames, width, generator=torch.Generator().manual_seed(seed)).cuda()


@SEEDS
def test_policies_are_near_float32_and_not_equal_to_it(on_cuda: Stages, seed: int) -> None:
    hiddens = hiddens_of(on_cuda, seed)
    exact = on_cuda.sound(hiddens, ServerRandomness(seed), 8, "fp32")
    for name in ("tf32", "fp16"):
        assert precision_on(name, torch.device("cuda")).arithmetic == name
        ours = on_cuda.sound(hiddens, ServerRandomness(seed), 8, name)
        error = ((ours - exact).norm() / exact.norm()).item()
        assert 1e-6 < error < 2e-2, (name, error)


@pytest.mark.parametrize("name", ["fp32", "tf32", "fp16"])
def test_kernels_and_twins_agree(on_cuda: Stages, name: str) -> None:
    hiddens = hiddens_of(on_cuda, 5)
    ours = on_cuda.sound(hiddens, ServerRandomness(5), 4, name)
    with twins_only():
        plain = on_cuda.sound(hiddens, ServerRandomness(5), 4, name)
    assert 0 < (ours - plain).abs().max().item() < {"fp32": 1e-4, "tf32": 2e-2, "fp16": 2e-2}[name]
    assert ((ours - plain).norm() / plain.norm()).item() < {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2}[name]


@pytest.mark.parametrize("name", ["fp32", "tf32", "fp16"])
def test_the_same_bits_again_and_between_other_songs(on_cuda: Stages, name: str) -> None:
    hiddens = hiddens_of(on_cuda, 6)
    first = on_cuda.sound(hiddens, ServerRandomness(6), 4, name)
    for other in ("fp32", "tf32", "fp16"):
        on_cuda.sound(hiddens_of(on_cuda, 7, 130), ServerRandomness(7), 2, other)
        torch.empty(2**26, device="cuda").normal_()
        assert torch.equal(on_cuda.sound(hiddens, ServerRandomness(6), 4, name), first)


@pytest.mark.parametrize("name", ["fp32", "tf32", "fp16"])
def test_a_graph_gives_the_same_bits(demo_root: Path, name: str) -> None:
    with_graphs, without = load_stages(demo_root, "cuda"), load_stages(demo_root, "cuda")
    without.acoustic.graphs = VelocityGraphs(wanted=False)
    hiddens = hiddens_of(with_graphs, 9, 430)
    for seed in (1, 2):
        captured = with_graphs.sound(hiddens, ServerRandomness(seed), 3, name)
        assert torch.equal(captured, without.sound(hiddens, ServerRandomness(seed), 3, name))
    assert len(with_graphs.acoustic.graphs) == 1 and not len(without.acoustic.graphs)
    assert not with_graphs.acoustic.graphs.eager_because


def test_two_songs_at_once_have_their_own_bits_and_policies(on_cuda: Stages) -> None:
    """Two runs of one engine, a step of one after a step of the other."""
    hiddens = hiddens_of(on_cuda, 8)
    alone = {name: on_cuda.sound(hiddens, ServerRandomness(8), 3, name) for name in ("fp32", "tf32")}
    runs = {name: on_cuda.acoustic.run(hiddens, ServerRandomness(8), 3, precision=name) for name in alone}
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in alone}
    before = torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision
    while runs:
        for name, run in list(runs.items()):
            part = next(run, None)
            assert (torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision) == before
            if part is None:
                del runs[name]
            elif isinstance(part, Sound):
                parts[name].append(part.wait())
    for name, sound in alone.items():
        assert torch.equal(torch.cat(parts[name], 1), sound)


def test_a_window_too_large_for_fp16_is_solved_again(demo_root: Path) -> None:
    stages = load_stages(demo_root, "cuda")
    with torch.inference_mode():
        stages.acoustic.transformer.blocks[0].qkv[:64] *= 1e5  # queries
    hiddens = hiddens_of(stages, 1, 230)
    parts = list(stages.acoustic.run(hiddens, ServerRandomness(1), 2, precision="fp16"))
    # tf32 has its attention in float16 as well.
    redone = [(part.window.index, part.precision) for part in parts if isinstance(part, Redone)]
    assert redone == [(0, "tf32"), (0, "fp32"), (1, "tf32"), (1, "fp32")]
    assert all(torch.isfinite(part.wait()).all() for part in parts if isinstance(part, Sound))
