"""`music3 bench` on the demo checkpoint: times, limits, and the reference beside them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.checkpoint.load import load_talker
from music3_cli.checkpoint.memory import frame_bytes
from music3_cli.jobs import peer
from tests.conftest import Music3

ON_CPU = ("--checkpoint", "demo", "--device", "cpu")


def test_bench_song_times_whole_songs(music3: Music3) -> None:
    pytest.importorskip("matplotlib")
    command = ("bench", "song", "--checkpoint", "demo", "--device", "cpu", "--steps", "1", "--seconds", "8.2")
    ran = music3(*command, "--songs", "2", "--timeline", "line.svg", "--no-peer", "--json")
    assert ran.code == 0, ran.err
    assert "weights loaded" in ran.err and "timing 2 songs" in ran.err and "bench-take2: 205 frames" in ran.err
    timing = json.loads(ran.out)
    assert (timing["frames"], timing["windows"], timing["finish_reasons"]) == (410, 4, ["ceiling", "ceiling"])
    assert timing["real_time"] == pytest.approx(timing["audio_seconds"] / timing["seconds"])
    assert 16 < timing["audio_seconds"] < 17
    assert timing["talker_limit"] == 0 < timing["acoustic_limit"]
    assert max(span["stop"] for span in timing["spans"]) <= timing["seconds"]
    assert Path("line.svg").read_text().count("acoustic") >= 2
    assert [path.name for path in Path().iterdir()] == ["line.svg"]


def test_bench_talker_times_the_step(music3: Music3) -> None:
    command = ("bench", "talker", "--checkpoint", "demo", "--device", "cpu", "--songs", "1,2", "--contexts", "100")
    command = (*command, "--no-peer")
    ran = music3(*command, "--json")
    assert ran.err.splitlines() == ["loading the talker of demo", "timing 1 song", "timing 2 songs"]
    report = json.loads(ran.out)
    timings = report["timings"]
    assert report["peer"] is None
    assert [(timing["songs"], timing["context"]) for timing in timings] == [(1, 100), (2, 100)]
    for timing in timings:
        assert timing["real_time"] == pytest.approx(timing["songs"] / 25 / (timing["frame_ms"] / 1000))
    rows = [
        line.split() for line in music3(*command).out.splitlines() if line.split()[:2] in (["1", "100"], ["2", "100"])
    ]
    assert len(rows) == 2 and all(row[4:] == ["-"] * 5 for row in rows)  # what only a GPU has


@pytest.mark.parametrize("int8", [False, True])
def test_the_limit_counts_every_weight_that_a_frame_reads(demo_root: Path, int8: bool) -> None:
    checkpoint = open_checkpoint(demo_root)
    talker = load_talker(checkpoint, torch.device("cpu"), torch.bfloat16, int8=int8)
    depth = dict(talker.depth.named_parameters())
    passes = [weight for name, weight in depth.items() if name.startswith(("layers", "projection"))] * 7
    read = [*talker.backbone.parameters(), talker.head, depth["heads"], *passes]
    backbone, decoder = checkpoint.architecture.backbone, checkpoint.architecture.depth
    assert frame_bytes(backbone, decoder, 2, int8) == sum(weight.nbytes for weight in read)


def test_bench_sets_the_reference_beside_our_figures(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    version = pytest.importorskip("diffusers").__version__
    monkeypatch.setattr(peer, "FRAMES", 20)
    talker = ("bench", "talker", *ON_CPU, "--songs", "1", "--contexts", "200")
    found = json.loads(music3(*talker, "--json").out)["peer"]  # without a word, where it is installed
    assert (found["name"], found["failed"]) == (f"diffusers {version}", "")
    frames = found["talker"].pop("frames")
    assert 0 < frames <= 20 and found["talker"].pop("frame_ms") > 0
    assert found["talker"] == {"dtype": "float32", "context": 400 + frames}
    shown = music3(*talker, "--peer").out
    assert f"1, diffusers {version}" in shown and f"times as fast as diffusers {version}" in shown

    acoustic = ("bench", "acoustic", *ON_CPU, "--precision", "tf32,fp16", "--steps", "2", "--seeds", "0")
    (window,) = json.loads(music3(*acoustic, "--json").out)["peer"]["windows"]
    assert (window["precision"], window["steps"]) == ("fp32", 2) and window["vocoder_ms"] > 0
    assert window["step_ms"] * 2 == pytest.approx(window["window_s"] * 1000)
    assert music3(*acoustic).out.count(f"diffusers {version}") == 2

    ran = music3("bench", "song", *ON_CPU, "--seconds", "4.1", "--steps", "2", "--json")
    timing = json.loads(ran.out)
    songs = timing["peer"]["songs"]
    sound = songs["window"]["window_s"] + songs["window"]["vocoder_ms"] / 1000
    expected = timing["frames"] * songs["talker"]["frame_ms"] / 1000 + timing["windows"] * sound
    assert songs["seconds"] == pytest.approx(expected) and songs["window"]["steps"] == timing["steps"] == 2


def test_bench_without_the_reference(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    talker = ("bench", "talker", *ON_CPU, "--songs", "1", "--contexts", "100")
    monkeypatch.setitem(sys.modules, "diffusers", None)
    ran = music3(*talker)
    assert ran.code == 0 and "diffusers" not in ran.out
    ran = music3(*talker, "--peer")
    assert ran.code == 2 and ran.out == "" and "--peer: diffusers" in ran.err and "pip install" in ran.err


def test_what_goes_wrong_in_the_reference_leaves_our_figures(music3: Music3, monkeypatch: pytest.MonkeyPatch) -> None:
    diffusers = pytest.importorskip("diffusers")

    def breaks(*_: object, **__: object) -> None:
        raise TypeError("another version's arguments\nand more")

    monkeypatch.setattr(diffusers.MiniMaxMusic3RVQDepthDecoder, "from_pretrained", breaks)
    monkeypatch.setattr(diffusers.MiniMaxMusic3Vocoder, "from_pretrained", breaks)
    said = f"diffusers {diffusers.__version__}: not measured (TypeError: another version's arguments)"
    for command in (("talker", "--songs", "1", "--contexts", "100"), ("song", "--seconds", "1", "--steps", "1")):
        ran = music3("bench", *command, *ON_CPU, "--peer")
        assert ran.code == 0 and said in ran.out and "real time" in ran.out
    ran = music3("bench", "acoustic", *ON_CPU, "--precision", "fp32", "--steps", "1", "--seeds", "0", "--json")
    assert ran.code == 0 and json.loads(ran.out)["peer"]["windows"] == []
    assert json.loads(ran.out)["peer"]["failed"].startswith("TypeError") and json.loads(ran.out)["transformer"]
    monkeypatch.setattr(peer, "host_memory", lambda: (1, 2))
    assert "not measured (it needs 0.0 GiB of host memory" in music3("bench", "talker", "--songs", "1", *ON_CPU).out


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("talker", "--contexts", "500000"), 2, "the talker of demo has 10240 positions"),
        (("talker", "--songs", "0"), 2, "whole numbers from 1 on"),
        (("talker", "--talker-dtype", "fp8"), 2, "one of auto, bf16, fp32"),
        (("song", "--timeline", "x.xyz"), 2, "ending in .png or .svg"),
        (("song", "--timeline", "no/such/x.png"), 7, "there is no folder no/such"),
        (("song", "--seconds", "-1"), 2, "from 0.04 s to 6:00"),
    ],
)
def test_bench_refuses_before_it_measures(music3: Music3, flags: tuple[str, ...], code: int, message: str) -> None:
    if "--timeline" in flags:
        pytest.importorskip("matplotlib")
    ran = music3("bench", *flags, "--checkpoint", "demo", "--device", "cpu")
    assert ran.code == code and message in ran.err and ran.out == ""


def test_bench_runs_on_the_demo(music3: Music3) -> None:
    command = ("bench", "acoustic", "--checkpoint", "demo", "--device", "cpu", "--steps", 2, "--seeds", 1)
    ran = music3(*command, "--no-peer", "--json")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert [timing["precision"] for timing in report["transformer"]] == ["fp32", "tf32", "fp16"]
    assert all(timing["step_ms"] > 0 and timing["tflops"] > 0 for timing in report["transformer"])
    assert [timing["velocity_error"] for timing in report["transformer"][:2]] == [0, 0]
    assert 0 < report["transformer"][2]["velocity_error"] < 1e-2
    assert len(report["products"]) == 12 and len(report["vocoder"]) == 3
    assert [(error["precision"], error["seed"]) for error in report["errors"]] == [("tf32", 0), ("fp16", 0)]
    assert 0 < report["errors"][1]["samples_relative"] < 0.1


def test_bench_refuses_an_unknown_policy(music3: Music3) -> None:
    ran = music3("bench", "acoustic", "--checkpoint", "demo", "--precision", "fp32,bf16")
    assert ran.code == 2 and "bf16" in ran.err and "fp32, tf32, fp16" in ran.err
