"""The Triton kernels without a GPU: under Triton's interpreter they give the twins' codes on the demo checkpoint, and
their values up to rounding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import environment

SCRIPT = """
from music3_cli.checkpoint.locate import find_checkpoint
from music3_cli.kernels.triton_support import twins_only, use_kernel
from tests.support.stages import load_stages

stages = load_stages(find_checkpoint("demo").root)


def render():
    songs = [stages.song(1, 3), stages.song(2, 4, prompt=stages.prompt(lyrics="[verse]\\nx\\n" * 9))]
    stages.talk(songs, 2)
    return songs


with_kernels = render()
assert use_kernel(stages.talker.talker.head)
with twins_only():
    with_twins = render()
for kernel, twin in zip(with_kernels, with_twins, strict=True):
    assert kernel.codes == twin.codes
    difference = (kernel.frame_hiddens() - twin.frame_hiddens()).abs().max().item()
    assert 0 < difference < 1e-5, difference
"""


ACOUSTIC = """
import torch
import triton
import triton.language as tl
from music3_cli.kernels.gate import gate
from music3_cli.kernels.layer_norm import add_layer_norm, layer_norm
from music3_cli.kernels.rotary import rotary_tables
from music3_cli.kernels.snake import snake, sum_and_snake
from music3_cli.kernels.split_heads import split_heads
from music3_cli.kernels.tf32 import operand, rounded_to_tf32
from music3_cli.kernels.triton_support import twins_only, use_kernel

torch.manual_seed(0)


@triton.jit
def _operands(x, out, columns, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    inside = at < columns
    at += tl.program_id(0) * columns
    tl.store(out + at, operand(tl.load(x + at, mask=inside), tl.float32, True), mask=inside)


def compare(function, *arguments):
    copies = [part.clone() if isinstance(part, torch.Tensor) else part for part in arguments]
    ours = function(*copies)
    assert use_kernel(torch.zeros(1))
    with twins_only():
        twins = function(*arguments)
    pairs = zip(ours, twins, strict=True) if isinstance(ours, tuple) else [(ours, twins)]
    for mine, theirs in pairs:
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        bound = 2e-6 if mine.dtype == torch.float32 else 4e-3  # a last bit of float16 near 4
        assert (mine.float() - theirs.float()).abs().max().item() < bound, function


# Values of all sizes, ties, and what is no number: where kernel and twin compute the same they round the same.
bits = torch.randint(-(2**31), 2**31 - 1, (4, 2200), dtype=torch.int64).to(torch.int32)
bits[0] = bits[0] // 2**13 * 2**13 + 2**12
raw = bits.view(torch.float32)
raw[1, :3] = torch.tensor([float("inf"), float("-inf"), float("nan")])
ours = torch.empty_like(raw)
_operands[(4,)](raw, ours, 2200, WIDTH=4096)
assert torch.equal(ours.view(torch.int32), rounded_to_tf32(raw).view(torch.int32))

for dtype in (torch.float32, torch.float16):
    x, product, affine = torch.randn(2, 5, 100), torch.randn(2, 5, 100).to(dtype), (torch.randn(100), torch.randn(100))
    compare(layer_norm, x, affine, 1e-5, dtype)
    compare(add_layer_norm, x, product, torch.randn(100), affine, 1e-5, dtype)
    compare(add_layer_norm, x, product, None, affine, 1e-5, dtype)
    compare(gate, torch.randn(2, 5, 2200).to(dtype), torch.randn(2200))
    for dim, rotary in ((64, 32), (24, 12), (16, 16)):
        tables = rotary_tables(torch.arange(7), rotary, 1e4)
        for out in (torch.float32, torch.float16):
            compare(split_heads, torch.randn(2, 7, 3 * 3 * dim).to(dtype), tables, dim, out)
wave, bias, alpha = torch.randn(2, 6, 1500), torch.randn(6), torch.rand(6) + 0.5
for function in (snake, sum_and_snake):
    compare(function, wave, bias, alpha)
    compare(function, wave, bias, alpha, torch.randn(2, 6, 1500))
"""


@pytest.mark.parametrize("script", [SCRIPT, ACOUSTIC], ids=["talker", "acoustic"])
def test_kernels_and_twins_agree(script: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    # Triton reads a kernel's source from its file.
    file = tmp_path / "script.py"
    file.write_text(script, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, file], env=environment(TRITON_INTERPRET="1"), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
