"""diffusers' talker on a checkpoint, for a side-by-side with `music3 bench talker` in the same run.

Usage: python3 benchmarks/peer_talker.py CHECKPOINT [--frames N] [--prompt-tokens N]
"""

from __future__ import annotations

import argparse
import time

import torch
from diffusers import MiniMaxMusic3RVQDepthDecoder
from diffusers.modular_pipelines.minimax_music3.encoders import MiniMaxMusic3AutoregressiveStep
from transformers import Qwen3ForCausalLM

from music3_cli.cli.console import data

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("checkpoint")
parser.add_argument("--frames", type=int, default=100)
parser.add_argument("--prompt-tokens", type=int, default=400)
options = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
bf16 = torch.bfloat16
model = Qwen3ForCausalLM.from_pretrained(f"{options.checkpoint}/language_model", dtype=bf16).to(device).eval()
depth = MiniMaxMusic3RVQDepthDecoder.from_pretrained(f"{options.checkpoint}/rvq_depth_decoder", torch_dtype=bf16)
step = MiniMaxMusic3AutoregressiveStep().init_pipeline()
step.update_components(language_model=model, rvq_depth_decoder=depth.to(device).eval())
ids = torch.randint(0, 150000, (2, options.prompt_tokens), device=device)
ids[1, 1:-2] = 151654
with torch.no_grad():
    for frames in (10, options.frames):
        started = time.perf_counter()
        generator = torch.Generator(device).manual_seed(1)
        hiddens = step(text_ids=ids, audio_duration=(frames + 0.5) / 25, generator=generator, output="frame_hiddens")
        seconds = time.perf_counter() - started
count = hiddens.shape[1]
data(f"diffusers: {count} frames, one song, bf16: {seconds / count * 1000:.1f} ms a frame")
