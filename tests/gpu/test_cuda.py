"""What must hold on a CUDA device: the CPU's codes in fp32, independence of songs, repeatable bytes, true fp32."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch

from music3_cli.devices import true_fp32
from music3_cli.kernels.triton_support import twins_only
from music3_cli.talker.engine import TalkerEngine
from music3_cli.talker.song import TalkerSong
from tests.conftest import EXAMPLES, Music3
from tests.support.devices import NEEDS_CUDA
from tests.support.stages import Stages, load_stages

pytestmark = NEEDS_CUDA


@pytest.fixture(scope="module")
def on_cuda(demo_root: Path) -> Stages:
    return load_stages(demo_root, "cuda")


@pytest.fixture(scope="module")
def on_cpu(demo_root: Path) -> Stages:
    return load_stages(demo_root)


@pytest.mark.parametrize("scheme", ["server", "diffusers"])
def test_fp32_gives_the_codes_of_the_cpu(on_cuda: Stages, on_cpu: Stages, scheme: str) -> None:
    for seed in (0, 1, 2):
        here, there = on_cuda.song(120, seed, scheme), on_cpu.song(120, seed, scheme)
        on_cuda.talk([here])
        on_cpu.talk([there])
        assert here.codes == there.codes
        assert torch.allclose(here.frame_hiddens().cpu(), there.frame_hiddens(), atol=2e-5, rtol=0)


def test_fp32_gives_the_sound_of_the_cpu(on_cuda: Stages, on_cpu: Stages) -> None:
    """On the same noise, which the reference scheme draws on the host."""
    song = on_cpu.song(225, 4, "diffusers")
    on_cpu.talk([song])
    fresh = [on_cpu.song(1, 9, "diffusers").randomness for _ in range(2)]
    there = on_cpu.sound(song.frame_hiddens(), fresh[0], 6)
    here = on_cuda.sound(song.frame_hiddens().cuda(), fresh[1], 6)
    assert here.shape == there.shape
    assert (here - there).abs().max().item() < 1e-4
    # TF32 would be off by more than this; the bound would catch it.
    assert (here - there).pow(2).mean().sqrt().item() < 1e-5


def digest(song: TalkerSong) -> str:
    content = song.frame_hiddens().float().cpu().numpy().tobytes() + str(song.codes).encode()
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_a_song_does_not_know_its_neighbours(demo_root: Path, dtype: torch.dtype) -> None:
    """Alone, in any slot, in any bucket, with neighbours that end before it, and admitted while others run."""
    stages = load_stages(demo_root, "cuda", dtype)
    other = stages.prompt("Loud and fast industrial metal, male voice.", "[verse]\nIron\n" * 20)

    def rendered(slot: int, neighbours: int, most_slots: int = 16) -> str:
        song = stages.song(60, 42)
        # Longest first decides the slot: neighbours before it are longer, those behind it shorter.
        songs = [stages.song(61 + n, 100 + n, prompt=other) for n in range(slot)]
        songs += [stages.song(59 - n, 200 + n, prompt=other) for n in range(neighbours - slot)]
        stages.talk([*songs, song], most_slots)
        assert all(len(s.codes) == s.max_frames for s in songs)
        return digest(song)

    variants = {rendered(0, 0), rendered(0, 1), rendered(2, 3), rendered(5, 5), rendered(5, 15), rendered(15, 15)}
    variants |= {rendered(6, 8, 2), rendered(20, 24, 16)}
    assert len(variants) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
def test_graph_and_eager_give_the_same_bits(demo_root: Path, dtype: torch.dtype) -> None:
    stages = load_stages(demo_root, "cuda", dtype)
    eager, graph = stages.song(500, 9), stages.song(500, 9)
    stages.talk([graph])
    assert stages.talker.eager_because == ""
    with true_fp32():
        for _ in TalkerEngine(stages.talker.talker, cuda_graph=False).run([eager]):
            pass
    assert digest(graph) == digest(eager)


def test_songs_of_every_length_lose_no_frame(on_cuda: Stages) -> None:
    """One frame, a full context, and songs that end while others are admitted."""
    context = on_cuda.checkpoint.architecture.backbone.max_position_embeddings
    longest = min(9000, context - len(on_cuda.prompt().ids) - 1)
    songs = [on_cuda.song(frames, frames) for frames in (1, 2, 300, 1, 37, longest)]
    on_cuda.talk(songs, 2)
    assert [(len(s.codes), s.finish_reason) for s in songs] == [(s.max_frames, "ceiling") for s in songs]
    assert torch.isfinite(songs[-1].frame_hiddens()).all()


def test_bytes_repeat_and_do_not_depend_on_company(music3: Music3, tmp_path: Path) -> None:
    files = [EXAMPLES / name for name in ("morning-light.txt", "yoru-no-uta.txt", "short-and-bare.txt")]
    flags = ("--checkpoint", "demo", "--device", "cuda", "--max-duration", "9", "--steps", "4")
    assert music3("render", *files, *flags, "-o", tmp_path / "together/").code == 0
    assert music3("render", *reversed(files), *flags, "-o", tmp_path / "reversed/").code == 0
    for file in files:
        alone = tmp_path / "alone" / f"{file.stem}.wav"
        assert music3("render", file, *flags, "-o", alone).code == 0
        content = {(tmp_path / folder / alone.name).read_bytes() for folder in ("together", "reversed", "alone")}
        assert len(content) == 1


def test_settings_of_the_process_are_left_alone(music3: Music3, tmp_path: Path) -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    music3(
        "render",
        EXAMPLES / "short-and-bare.txt",
        "--checkpoint",
        "demo",
        "--device",
        "cuda",
        "--max-duration",
        "1",
        "--steps",
        "1",
    )
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before


def test_without_kernels_the_twins_run_and_it_is_said(demo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from music3_cli.talker import engine

    stages = load_stages(demo_root, "cuda", torch.float32)
    with_kernels, with_twins = stages.song(40, 5), stages.song(40, 5)
    stages.talk([with_kernels])
    monkeypatch.setattr(engine, "kernels_work", lambda: False)
    assert engine.most_slots(torch.device("cuda")) == 1
    with twins_only():
        stages.talk([with_twins])
    assert "Triton" in stages.talker.eager_because
    assert with_twins.codes == with_kernels.codes
