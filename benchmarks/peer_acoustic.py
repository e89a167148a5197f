"""diffusers' transformer and vocoder on a checkpoint, for a side-by-side with `music3 bench acoustic` in the same run.

Usage: python3 benchmarks/peer_acoustic.py CHECKPOINT [--steps N]
"""

from __future__ import annotations

import argparse
import time

import torch
from diffusers import (
    ClassifierFreeGuidance,
    FlowMatchEulerDiscreteScheduler,
    MiniMaxMusic3ConditionEncoder,
    MiniMaxMusic3Transformer1DModel,
    MiniMaxMusic3Vocoder,
)
from diffusers.modular_pipelines.minimax_music3.modular_blocks_minimax_music3 import MiniMaxMusic3CoreDenoiseStep

from music3_cli.cli.console import data
from music3_cli.timing import seconds_of, wait

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("checkpoint")
parser.add_argument("--steps", type=int, default=30)
options = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
POLICIES = (("fp32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False))
for name, dtype, tf32 in POLICIES if device.type == "cuda" else POLICIES[:1]:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32

    def load(kind, folder, dtype=dtype):
        return kind.from_pretrained(f"{options.checkpoint}/{folder}", torch_dtype=dtype).to(device).eval()

    encoder = load(MiniMaxMusic3ConditionEncoder, "condition_encoder")
    vocoder = load(MiniMaxMusic3Vocoder, "vocoder")
    denoise = MiniMaxMusic3CoreDenoiseStep().init_pipeline()
    denoise.update_components(
        condition_encoder=encoder,
        transformer=load(MiniMaxMusic3Transformer1DModel, "transformer"),
        scheduler=FlowMatchEulerDiscreteScheduler(num_train_timesteps=1, shift=1.0, invert_sigmas=True),
        guider=ClassifierFreeGuidance(guidance_scale=1.7),
    )
    denoise.set_progress_bar_config(disable=True)
    width = encoder.config.num_condition_layers * encoder.config.condition_hidden_dim
    hiddens = torch.randn(1, 200, width, device=device, dtype=dtype)
    with torch.no_grad():
        for steps in (2, options.steps):
            wait(device)
            started = time.perf_counter()
            generator = torch.Generator(device).manual_seed(1)
            latents = denoise(
                frame_hiddens=hiddens, num_inference_steps=steps, generator=generator, output="latent_chunks"
            )[0]
            wait(device)
            seconds = time.perf_counter() - started
        sound_seconds = seconds_of(lambda: vocoder(latents), device, 5)  # noqa: B023
    data(
        f"diffusers {name}: one window of 200 frames, {options.steps} steps, two forwards a step: {seconds:.3f} s; "
        f"vocoder, {latents.shape[-1]} latents: {sound_seconds * 1000:.1f} ms"
    )
    del denoise, encoder
    if device.type == "cuda":
        torch.cuda.empty_cache()
