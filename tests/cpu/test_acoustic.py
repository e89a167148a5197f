"""The acoustic stage: schedules, precision policies, seams and the vocoder's span."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from music3_cli.acoustic.engine import Redone, Sound
from music3_cli.acoustic.flow import schedule
from music3_cli.acoustic.precision import Precision
from music3_cli.devices import arithmetic
from music3_cli.kernels.tf32 import rounded_to_tf32
from music3_cli.models.transformer import BlockDtypes
from music3_cli.models.vocoder import Vocoder
from music3_cli.randomness import ReferenceRandomness, ServerRandomness
from tests.conftest import EXAMPLES, Music3
from tests.support.edited import edited_copy
from tests.support.stages import Stages, load_stages

TOLERANCE = 1e-5


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("steps", [1, 2, 16, 30, 50])
def test_schedule_is_that_of_diffusers(steps: int, shift: float) -> None:
    diffusers = pytest.importorskip("diffusers")
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=shift, invert_sigmas=True)
    scheduler.set_timesteps(sigmas=np.linspace(1.0, 1.0 / steps, steps))
    times = torch.tensor(schedule(steps, shift))
    assert times[0] == 0 and times[-1] == 1
    assert (times - scheduler.sigmas).abs().max().item() < 2e-7


@given(steps=st.integers(1, 1000), shift=st.floats(0.1, 20))
def test_times_run_from_noise_to_sound(steps: int, shift: float) -> None:
    times = schedule(steps, shift)
    assert len(times) == steps + 1 and times[0] == 0 and times[-1] == 1
    assert all(before < after for before, after in zip(times, times[1:], strict=False))


def random_hiddens(stages: Stages, frames: int, seed: int) -> torch.Tensor:
    config = stages.checkpoint.architecture.condition
    width = config.num_condition_layers * config.condition_hidden_dim
    return torch.randn(frames, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("steps", "shift"), [(2, 1.0), (4, 2.0)])
def test_five_windows_and_their_seams(stages: Stages, oracle: Any, steps: int, shift: float) -> None:
    """Every window's length, carry and seam in fp32, with the model's schedule and another one."""
    from diffusers.modular_pipelines.minimax_music3.decoders import MiniMaxMusic3VocoderDecodeStep
    from diffusers.modular_pipelines.minimax_music3.modular_blocks_minimax_music3 import MiniMaxMusic3CoreDenoiseStep

    frames, seed = 577, 3
    assert len(stages.acoustic.windows(frames)) == 5
    hiddens = random_hiddens(stages, frames, seed)
    scheduler = type(oracle.scheduler).from_config(oracle.scheduler.config, shift=shift)
    denoise = MiniMaxMusic3CoreDenoiseStep().init_pipeline()
    denoise.update_components(
        condition_encoder=oracle.condition_encoder,
        transformer=oracle.transformer,
        scheduler=scheduler,
        guider=oracle.guider,
    )
    denoise.set_progress_bar_config(disable=True)
    decode = MiniMaxMusic3VocoderDecodeStep().init_pipeline()
    decode.update_components(vocoder=oracle.vocoder)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(seed)
        chunks = denoise(
            frame_hiddens=hiddens[None], num_inference_steps=steps, generator=generator, output="latent_chunks"
        )
        sound = decode(latent_chunks=chunks, output_type="pt", output="audios")[0]
    ours = stages.sound(hiddens, ReferenceRandomness(seed, 1), steps, shift=shift)
    assert ours.shape == sound.shape
    assert (ours - sound).abs().max().item() < TOLERANCE
    assert sound.std().item() > 0.01


def test_tf32_is_fp32_on_a_cpu_and_fp16_is_near(stages: Stages) -> None:
    hiddens = random_hiddens(stages, 230, 1)
    sounds = {name: stages.sound(hiddens, ServerRandomness(1), 4, precision=name) for name in ("fp32", "tf32", "fp16")}
    assert torch.equal(sounds["tf32"], sounds["fp32"])
    difference = (sounds["fp16"] - sounds["fp32"]).norm() / sounds["fp32"].norm()
    assert 1e-6 < difference.item() < 1e-2
    again = stages.sound(hiddens, ServerRandomness(1), 4, precision="fp16")
    assert torch.equal(again, sounds["fp16"])


def test_half_matrices_are_enough_for_fp16(stages: Stages, demo_root: Path) -> None:
    """Loaded as float16 a transformer gives the fp16 policy's bits, and can still solve with wider policies."""
    from music3_cli.acoustic.engine import AcousticEngine
    from music3_cli.checkpoint.load import load_transformer

    with torch.inference_mode():
        narrow = load_transformer(stages.checkpoint, torch.device("cpu"), product=torch.float16)
    assert {block.ff_in.dtype for block in narrow.blocks} == {torch.float16}
    assert narrow.latents_in.dtype == narrow.blocks[0].norm1_weight.dtype == narrow.blocks[0].ff_in_bias.dtype
    assert narrow.latents_in.dtype == torch.float32
    engine = AcousticEngine(stages.acoustic.condition, narrow, stages.acoustic.vocoder)
    hiddens = random_hiddens(stages, 30, 2)

    def sound(acoustic: AcousticEngine, precision: str) -> torch.Tensor:
        parts = acoustic.run(hiddens, ServerRandomness(2), 3, precision=precision)
        return torch.cat([part.wait() for part in parts if isinstance(part, Sound)], 1)

    assert torch.equal(sound(engine, "fp16"), sound(stages.acoustic, "fp16"))
    wide, exact = sound(engine, "fp32"), sound(stages.acoustic, "fp32")
    assert 0 < ((wide - exact).norm() / exact.norm()).item() < 1e-2


@given(st.lists(st.floats(width=32), min_size=1, max_size=50))
def test_rounding_to_tf32(values: list[float]) -> None:
    x = torch.tensor(values)
    rounded = rounded_to_tf32(x)
    finite = x.isfinite()
    assert torch.equal(rounded[~finite].isnan(), x[~finite].isnan())
    assert torch.equal(rounded[x.isinf()], x[x.isinf()])
    assert not (rounded.view(torch.int32)[finite] & 0x1FFF).any()
    # frexp: the leading bit is worth 1/2, so 10 bits behind it leave steps of 2^-11; numpy rounds ties to even.
    mantissa, exponent = np.frexp(x[finite].double().numpy())
    exponent = np.maximum(exponent, -125)  # below the smallest normal number steps stay as they are
    mantissa = x[finite].double().numpy() / np.exp2(exponent)
    with np.errstate(over="ignore"):
        expected = (np.rint(mantissa * 2048) / 2048 * np.exp2(exponent)).astype(np.float32)
    assert np.array_equal(rounded[finite].numpy(), expected)


def test_matrices_rounded_for_good_give_what_rounded_copies_give(demo_root: Path) -> None:
    held, stored = load_stages(demo_root), load_stages(demo_root)
    held.acoustic.transformer.round_matrices()
    hiddens = random_hiddens(stored, 30, 2)
    rounding = Precision("fp32", "fp32", False, BlockDtypes(tf32_matrices=True), False)

    def latents(stages: Stages, precision: Precision) -> torch.Tensor:
        engine, times = stages.acoustic, schedule(3)
        with torch.inference_mode():
            problem = engine.problem(engine.windows(30)[0], hiddens, ServerRandomness(2), None)
            solving = engine.solve(problem, times, engine.tokens(times), 1.7, precision)
            while True:
                try:
                    next(solving)
                except StopIteration as end:
                    return end.value

    assert torch.equal(latents(held, rounding), latents(stored, rounding))
    exact = latents(stored, Precision("fp32", "fp32", False, BlockDtypes(), False))
    assert 0 < (latents(held, rounding) - exact).norm() / exact.norm() < 1e-2


def too_large_for_fp16(weights: np.ndarray) -> None:
    weights *= 1e5


def test_a_window_too_large_for_fp16_is_solved_again(demo_root: Path) -> None:
    stages = load_stages(demo_root)
    with torch.inference_mode():
        block = stages.acoustic.transformer.blocks[0]
        block.qkv *= 1e5
    hiddens = random_hiddens(stages, 230, 1)
    parts = list(stages.acoustic.run(hiddens, ServerRandomness(1), 2, precision="fp16"))
    redone = [part for part in parts if isinstance(part, Redone)]
    assert [(part.window.index, part.precision) for part in redone] == [(0, "tf32"), (1, "tf32")]
    sound = torch.cat([part.wait() for part in parts if isinstance(part, Sound)], 1)
    assert torch.isfinite(sound).all()
    # On the same noise; the vocoder's arithmetic is that of the policy asked for, which on a CPU is the same.
    assert torch.equal(sound, stages.sound(hiddens, ServerRandomness(1), 2, precision="tf32"))


def test_windows_solved_again_are_told(music3: Music3, demo_root: Path) -> None:
    index = json.loads((demo_root / "transformer/diffusion_pytorch_model.safetensors.index.json").read_text())
    tensor = "transformer_blocks.1.attn.to_q.weight"
    file = f"transformer/{index['weight_map'][tensor]}"
    checkpoint = edited_copy(demo_root, file, tensor, too_large_for_fp16)
    ran = music3(
        *("render", EXAMPLES / "short-and-bare.txt", "--checkpoint", checkpoint, "--fast", "--steps", "2"),
        *("--max-duration", "1", "-o", "a.wav"),
    )
    assert ran.code == 0, ran.err
    assert "1 of 1 windows" in ran.err and "solved again with tf32" in ran.err
    sidecar = json.loads(Path("a.wav.json").read_text())
    assert sidecar["acoustic"] == {"arithmetic": "fp16", "fast": True, "windows": 1, "windows_redone": {"tf32": 1}}
    assert {name: sidecar["settings"][name] for name in ("steps", "shift", "precision")} == {
        "steps": 2,
        "shift": 2.0,
        "precision": "fp16",
    }
    assert any("solved again" in warning for warning in sidecar["warnings"])


def test_the_asked_precision_and_the_arithmetic_are_in_the_sidecar(music3: Music3) -> None:
    flags = ("--checkpoint", "demo", "--steps", "1", "--max-duration", "0.2", "--device", "cpu", "-o", "a.wav")
    assert music3("render", EXAMPLES / "short-and-bare.txt", *flags).code == 0
    sidecar = json.loads(Path("a.wav.json").read_text())
    assert sidecar["settings"]["precision"] == "tf32"
    assert sidecar["acoustic"] == {"arithmetic": "fp32", "fast": False, "windows": 1, "windows_redone": {}}


@pytest.fixture(scope="module")
def vocoder(stages: Stages) -> Vocoder:
    return stages.acoustic.vocoder


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_span_is_that_of_the_whole(vocoder: Vocoder, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 90))
    start = data.draw(st.integers(0, length - 1))
    stop = data.draw(st.integers(start + 1, length))
    latents = torch.randn(128, length, generator=torch.Generator().manual_seed(length))
    with torch.inference_mode():
        whole = vocoder(latents)[:, 512 * start : 512 * stop]
        part = vocoder.decode(latents, start, stop)
    assert part.shape == whole.shape
    # Convolutions of other lengths may add up in another order; a latent too few is off by far more.
    assert (part - whole).abs().max().item() < 1e-6


def test_the_span_read_is_exactly_the_receptive_field(vocoder: Vocoder) -> None:
    length, start, stop = 120, 50, 60
    first, last = vocoder.needed(start, stop, length)
    assert 0 < first < start and stop < last < length
    latents = torch.randn(128, length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wide = type(vocoder)(vocoder.config).double()
    wide.load_state_dict({name: value.double() for name, value in vocoder.state_dict().items()})

    def heard(*changed: int) -> float:
        other = latents.clone()
        other[:, list(changed)] += 1.0
        span = slice(512 * start, 512 * stop)
        with torch.inference_mode():
            return (wide(other)[:, span] - wide(latents)[:, span]).abs().max().item()

    assert heard(first - 1, last) == 0
    assert heard(first) > 0 and heard(last - 1) > 0


@pytest.mark.parametrize("tf32", [True, False])
def test_settings_of_the_process_are_its_own_again(tf32: bool) -> None:
    """Whichever of torch's interfaces they were made with, and after an error."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

    def state() -> tuple[object, ...]:
        new = matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision
        other = cudnn.benchmark, cudnn.deterministic, matmul.allow_fp16_reduced_precision_reduction
        try:
            return (torch.get_float32_matmul_precision(), *new, *other)
        except RuntimeError:  # it differs from the new interface's value
            return ("mixed", *new, *other)

    def check() -> None:
        before = state()
        with pytest.raises(KeyError), arithmetic(tf32):
            assert matmul.fp32_precision == cudnn.conv.fp32_precision == ("tf32" if tf32 else "ieee")
            assert matmul.allow_tf32 == tf32
            assert cudnn.deterministic and not cudnn.benchmark
            raise KeyError
        assert state() == before

    first = state()
    check()
    try:
        for old in (True, False):
            matmul.allow_tf32 = old
            check()
            for new in ("tf32", "ieee"):
                matmul.fp32_precision = cudnn.conv.fp32_precision = new
                check()
        torch.set_float32_matmul_precision("medium")
        cudnn.benchmark = True
        check()
    finally:
        cudnn.benchmark = first[4]
        torch.set_float32_matmul_precision(first[0])  # raises nothing, whatever the new interface says
        matmul.fp32_precision, cudnn.conv.fp32_precision = first[1], first[2]
    assert state() == first
