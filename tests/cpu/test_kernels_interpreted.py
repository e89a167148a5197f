"""The Triton kernels without a GPU: under Triton's interpreter they give the twins' codes on the demo checkpoint, and
their values up to rounding."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

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
from music3_cli.kernels.gate import gate
from music3_cli.kernels.layer_norm import add_layer_norm, layer_norm
from music3_cli.kernels.rotary import rotary_tables
from music3_cli.kernels.snake import snake, sum_and_snake
from music3_cli.kernels.split_heads import split_heads
from music3_cli.kernels.triton_support import twins_only, use_kernel

torch.manual_seed(0)


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
def test_kernels_and_twins_agree(script: str) -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
