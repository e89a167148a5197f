"""On a CUDA device: threads, streams, a second GPU, swaps and a memory cap change no byte of a song."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from music3_cli.checkpoint.load import load_talker
from music3_cli.checkpoint.locate import find_checkpoint
from music3_cli.kernels import linear
from music3_cli.kernels.quantized import Int8Matrix
from tests.conftest import EXAMPLES, Music3
from tests.support.devices import NEEDS_CUDA

pytestmark = NEEDS_CUDA

FILES = [EXAMPLES / name for name in ("morning-light.txt", "yoru-no-uta.txt", "short-and-bare.txt")]
FLAGS = ("--checkpoint", "demo", "--device", "cuda", "--max-duration", "11", "--steps", "4", "--takes", "2")


def rendered(music3: Music3, folder: str, *more: str) -> dict[str, bytes]:
    ran = music3("render", *FILES, *FLAGS, *more, "-o", f"{folder}/")
    assert ran.code == 0, ran.err
    return {path.name: path.read_bytes() for path in Path(folder).glob("*.wav")}


def test_however_the_stages_share_the_work(music3: Music3) -> None:
    threads = rendered(music3, "threads")
    assert len(threads) == 6
    assert threads == rendered(music3, "swap", "--placement", "swap")
    try:
        assert threads == rendered(music3, "capped", "--memory-limit", "2")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)  # the limit is the process's
    assert threads == rendered(music3, "eager", "--no-cuda-graph")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("acoustic", ["cuda:1", "auto", "cuda:0,cuda:1"])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_two_devices_give_the_bytes_of_one(music3: Music3, acoustic: str, precision: str) -> None:
    one = rendered(music3, "one", "--precision", precision)
    assert one == rendered(music3, "two", "--precision", precision, "--acoustic-device", acoustic)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_the_talker_runs_on_another_device_than_the_first(music3: Music3) -> None:
    assert rendered(music3, "first") == rendered(music3, "second", "--device", "cuda:1")


def test_int8_songs_do_not_know_their_neighbours(music3: Music3) -> None:
    together = rendered(music3, "together", "--talker-weights", "int8")
    alone = music3("render", FILES[0], *FLAGS, "--talker-weights", "int8", "-o", "alone/")
    assert alone.code == 0
    for path in Path("alone").glob("*.wav"):
        assert path.read_bytes() == together[path.name]


@pytest.mark.parametrize("rows", [1, 2, 7, 32])
@pytest.mark.parametrize(("outputs", "inner"), [(6144, 4096), (4096, 12288), (1000, 512)])
def test_int8_products(rows: int, outputs: int, inner: int) -> None:
    generator = torch.Generator("cuda").manual_seed(rows)
    weight = torch.randn(outputs, inner, generator=generator, device="cuda", dtype=torch.bfloat16)
    quantized = Int8Matrix(outputs, inner).cuda()
    quantized.set_rows(0, weight)
    x = torch.randn(rows, inner, generator=generator, device="cuda", dtype=torch.bfloat16)
    expected = x.double() @ (quantized.values_NK.double() * quantized.scale_N.double()[:, None]).T
    got = linear.linear_parts(x, quantized).double().sum(0)
    assert (got - expected).abs().max() < 1e-4 * expected.abs().max()
    first = linear.linear_parts(x[:1].contiguous(), quantized)
    assert torch.equal(first[:, 0], linear.linear_parts(x, quantized)[:, 0])


def test_int8_is_never_whole_in_bf16_on_the_device() -> None:
    checkpoint, device = find_checkpoint("demo"), torch.device("cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with torch.inference_mode():
        talker = load_talker(checkpoint, device, torch.bfloat16, int8=True)
    own = sum(p.nbytes for p in talker.parameters())
    largest = max(p.numel() for p in talker.parameters())
    assert torch.cuda.max_memory_allocated() - before < own + 12 * largest + 2**20


def test_doctor_sees_the_gpu(music3: Music3) -> None:
    ran = music3("doctor", "--checkpoint", "demo", "--json")
    assert ran.code == 0, ran.out
    checks = {check["name"]: check for check in json.loads(ran.out)["checks"]}
    assert checks["cuda:0"]["facts"]["total_bytes"] > 2**30 and checks["kernels"]["level"] in ("ok", "warning")
