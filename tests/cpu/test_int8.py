"""The talker's matrices in 8 bits: how far they are from the full ones, and that both ways to multiply agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from music3_cli.checkpoint import load
from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.checkpoint.memory import sizes, talker_bytes
from music3_cli.kernels.linear import gated_linear, linear_parts, sum_parts
from music3_cli.kernels.quantized import Int8Matrix
from tests.conftest import EXAMPLES, Music3
from tests.support.programs import environment


def matrix(outputs: int, inner: int, seed: int) -> tuple[Int8Matrix, torch.Tensor]:
    weight = torch.randn(outputs, inner, generator=torch.Generator().manual_seed(seed))
    quantized = Int8Matrix(outputs, inner)
    quantized.set_rows(0, weight)
    return quantized, weight


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**31))
def test_no_weight_moves_more_than_half_a_step(outputs: int, inner: int, seed: int) -> None:
    quantized, weight = matrix(outputs, inner, seed)
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((quantized.dense(torch.float32) - weight).abs() <= step * 0.5001).all()


def test_rows_of_zeros_stay_zeros() -> None:
    quantized = Int8Matrix(2, 8)
    quantized.set_rows(0, torch.zeros(2, 8))
    assert (quantized.dense(torch.float32) == 0).all()


def test_products_are_those_of_the_dense_matrix() -> None:
    quantized, _ = matrix(96, 64, 1)
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(2))
    dense = quantized.dense(torch.float32)
    assert torch.allclose(sum_parts(linear_parts(x, quantized), torch.float32), x @ dense.T, atol=1e-4)
    assert torch.allclose(gated_linear(x, quantized), gated_linear(x, dense), atol=1e-3)


def test_the_talker_is_smaller_as_planned_and_near_the_full_one(demo_root: Path) -> None:
    checkpoint = open_checkpoint(demo_root)
    cpu = torch.device("cpu")
    with torch.inference_mode():
        full = load.load_talker(checkpoint, cpu, torch.float32)
        int8 = load.load_talker(checkpoint, cpu, torch.float32, int8=True)
    planned = sizes(checkpoint.components, checkpoint.architecture, 4)
    assert (
        sum(p.nbytes for p in full.parameters())
        == planned.talker["full"]
        == talker_bytes(checkpoint.components, checkpoint.architecture, 4)
    )
    assert sum(p.nbytes for p in int8.parameters()) == planned.talker["int8"]
    ids = torch.arange(30)[None]
    with torch.inference_mode():
        exact, near = (t.backbone.prefill(t.embed_text(ids)) for t in (full, int8))
    error = ((near - exact).norm() / exact.norm()).item()
    assert 0 < error < 0.05


def test_int8_is_another_song_and_says_so(music3: Music3) -> None:
    flags = ("--checkpoint", "demo", "--steps", "1", "--max-duration", "0.4", "--device", "cpu")
    for weights in ("full", "int8"):
        ran = music3(
            "render", EXAMPLES / "short-and-bare.txt", *flags, "--talker-weights", weights, "-o", f"{weights}.wav"
        )
        assert ran.code == 0, ran.err
        assert ("in int8" in ran.err) == (weights == "int8")
        content = json.loads(Path(f"{weights}.wav.json").read_text())
        assert content["settings"]["talker_weights"] == weights
        assert f"--talker-weights {weights}" in content["repeat"]
    assert Path("full.wav").read_bytes() != Path("int8.wav").read_bytes()


KERNELS = """
import torch
from music3_cli.kernels import linear
from music3_cli.kernels.quantized import Int8Matrix

for rows, outputs, inner in ((2, 96, 64), (3, 80, 1024), (16, 33, 256)):
    weight = torch.randn(2 * outputs, inner, generator=torch.Generator().manual_seed(rows))
    x = torch.randn(rows, inner, generator=torch.Generator().manual_seed(1))
    quantized = Int8Matrix(2 * outputs, inner)
    quantized.set_rows(0, weight)
    assert linear.use_kernel(x)
    kernels = linear.sum_parts(linear.linear_parts(x, quantized), torch.float32), linear.gated_linear(x, quantized)
    linear_use, linear.use_kernel = linear.use_kernel, lambda _: False
    twins = linear.sum_parts(linear.linear_parts(x, quantized), torch.float32), linear.gated_linear(x, quantized)
    linear.use_kernel = linear_use
    for kernel, twin in zip(kernels, twins, strict=True):
        assert torch.allclose(kernel, twin, rtol=1e-4, atol=1e-3 * twin.abs().max().item())
"""


def test_the_kernels_multiply_int8_as_the_twins_do() -> None:
    pytest.importorskip("triton")
    ran = subprocess.run(
        [sys.executable, "-c", KERNELS],
        env=environment(TRITON_INTERPRET="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
