"""Write a full-size checkpoint of random weights in the released layout: 1012 tensors, 28.5 GB.

Usage: python3 benchmarks/make_checkpoint.py DEST [--miniature]

Timings of random weights equal those of real ones. Uses a CUDA device for the random numbers where there is one.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from music3_cli.checkpoint.demo import CONFIGS, write_tokenizer
from music3_cli.checkpoint.headers import Buffer
from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.checkpoint.layout import Component
from music3_cli.checkpoint.random_weights import Spread, write_random_checkpoint
from music3_cli.cli.console import data

RELEASED = Path(__file__).parent.parent / "music3_cli" / "checkpoint" / "released.json"
DTYPES = {"BF16": torch.bfloat16, "F32": torch.float32}


def released_configs() -> dict[str, dict[str, object]]:
    """Each component's released config."""
    components = json.loads(RELEASED.read_text(encoding="utf-8"))["components"]
    return {name: component["config"] for name, component in components.items()}


def normal_weights(device: torch.device, seed: int = 0):
    """A `Fill` of normal random numbers."""
    generator = torch.Generator(device).manual_seed(seed)

    def fill(component: Component, name: str, shape: tuple[int, ...], spread: Spread) -> Buffer:
        tensor = torch.empty(shape, dtype=DTYPES[component.dtype], device=device)
        tensor.normal_(spread.centre, spread.deviation, generator=generator)
        if spread.level:
            tensor -= tensor.mean(-1, keepdim=True)
        if spread.zero_row is not None:
            tensor[spread.zero_row] = 0
        return memoryview(tensor.cpu().flatten().view(torch.uint8).numpy())

    return fill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dest", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--miniature", action="store_true", help="the demo's sizes, to try the script")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    started = time.perf_counter()
    configs = CONFIGS if options.miniature else released_configs()
    write_random_checkpoint(options.dest, configs, normal_weights(device), {"model_type": "minimax-music3"})
    write_tokenizer(options.dest / "tokenizer")
    seconds = time.perf_counter() - started
    checkpoint = open_checkpoint(options.dest)
    tensors = sum(len(files.tensors) for files in checkpoint.components.values())
    size = checkpoint.weight_bytes
    data(f"{options.dest}: {tensors} tensors, {size:,} bytes in {seconds:.1f} s ({size / seconds / 1e9:.2f} GB/s)")


if __name__ == "__main__":
    main()
