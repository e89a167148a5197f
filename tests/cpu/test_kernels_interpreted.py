"""The Triton kernels without a GPU: under Triton's interpreter they give the twins' codes on the demo checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

SCRIPT = """
from music3_cli.checkpoint.locate import find_checkpoint
from music3_cli.kernels import attention, depth_attention, embedding, keep, linear, norm
from music3_cli.talker import draws
from tests.support.stages import load_stages

stages = load_stages(find_checkpoint("demo").root)


def render():
    songs = [stages.song(4, 3), stages.song(3, 4, prompt=stages.prompt(lyrics="[verse]\\nx\\n" * 9))]
    stages.talk(songs, 2)
    return songs


with_kernels = render()
assert linear.use_kernel(stages.talker.talker.head)
for module in (linear, norm, attention, depth_attention, embedding, keep, draws):
    module.use_kernel = lambda _: False
for kernel, twin in zip(with_kernels, render(), strict=True):
    assert kernel.codes == twin.codes
    difference = (kernel.frame_hiddens() - twin.frame_hiddens()).abs().max().item()
    assert 0 < difference < 1e-5, difference
"""


def test_kernels_and_twins_give_the_same_codes() -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
