"""Checkpoints of random weights in exactly the released layout: the demo, and full-size ones for benchmarks.

Knows the folder structure and how large each kind of weight must be for activations to stay in range; where the random
bytes come from is the caller's business.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from music3_cli.checkpoint.headers import DTYPE_BYTES, Buffer, write_weight_file
from music3_cli.checkpoint.layout import AUDIO_END, COMPONENTS, Component

SHARDS = {"language_model": 4, "transformer": 2}
"""Components that are released in several files."""

Fill = Callable[[Component, str, tuple[int, ...], "Spread"], Buffer]
"""(component, tensor name, shape, spread) -> the tensor's bytes in the component's dtype."""


class Spread:
    """Distribution of one tensor: uniform around `centre` with standard deviation `deviation`.

    `zero_row` names a row that is all zeros, if any.
    """

    def __init__(self, centre: float, deviation: float, zero_row: int | None = None) -> None:
        self.centre, self.deviation, self.zero_row = centre, deviation, zero_row


def spread_of(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Spread:
    """A tensor's distribution: linear and convolution weights keep the variance of what they are given, norms and
    snakes are near one, biases near zero.

    The head's row of `<|audio_end|>` is zero, which is never among the 50 likeliest: a song of random weights lasts
    until its ceiling. `strides` are the vocoder's upsampling ratios.
    """
    if name == "lm_head.weight":
        return Spread(0, 2.5 / math.sqrt(shape[1]), AUDIO_END)
    if "embed" in name and "time_embed" not in name:
        return Spread(0, 0.5)
    if name.endswith("weight_g"):
        if "conv_t1" in name:
            stride = strides[int(name.split(".")[1])]
            return Spread(0.7 * math.sqrt(stride / 2), 0.05)
        return Spread(0.06 if "conv_out" in name else 0.25 if "conv2" in name else 1.0, 0.01)
    if "norm" in name and name.endswith("weight") or name.endswith(("alpha", "layer_scale")):
        return Spread(1.0, 0.1)
    if name.endswith("bias") or name == "layer_weight_logits":
        return Spread(0, 0.05)
    if name == "time_proj.weight":
        return Spread(0, 1.0)
    return Spread(0, 1 / math.sqrt(math.prod(shape[1:])))


def write_random_checkpoint(
    dest: Path, configs: Mapping[str, Mapping[str, Any]], fill: Fill, root_config: Mapping[str, Any]
) -> None:
    """Write every file of the modular layout but the tokenizer into `dest`.

    Args:
        configs: each component's config.json, released or miniature.
        fill: makes the weights.
        root_config: the config.json of the root.
    """
    strides = tuple(configs["vocoder"]["upsampling_ratios"])
    for component in COMPONENTS.values():
        folder = dest / component.name
        folder.mkdir(parents=True)
        _write_json(folder / "config.json", configs[component.name])
        shapes = component.config.from_json(configs[component.name], component.name).shapes()
        shards = _split(shapes, DTYPE_BYTES[component.dtype], SHARDS.get(component.name, 1))
        weight_map = {}
        for number, names in enumerate(shards, start=1):
            file = component.single_file
            if len(shards) > 1:
                file = f"{component.stem}-{number:05d}-of-{len(shards):05d}.safetensors"
            weight_map.update(dict.fromkeys(names, file))
            write_weight_file(
                folder / file,
                [(name, component.dtype, shapes[name]) for name in names],
                (fill(component, name, shapes[name], spread_of(name, shapes[name], strides)) for name in names),
            )
        if len(shards) > 1:
            total = sum(math.prod(shape) for shape in shapes.values()) * DTYPE_BYTES[component.dtype]
            _write_json(folder / component.index_file, {"metadata": {"total_size": total}, "weight_map": weight_map})
    _write_json(dest / "language_model" / "generation_config.json", {"eos_token_id": AUDIO_END})
    _write_json(dest / "scheduler" / "scheduler_config.json", SCHEDULER)
    _write_json(dest / "modular_model_index.json", _modular_index())
    _write_json(dest / "config.json", root_config)
    (dest / "LICENSE").write_text("Random weights made by music3. They may be used for anything.\n", encoding="utf-8")


SCHEDULER = {
    "_class_name": "FlowMatchEulerDiscreteScheduler",
    "invert_sigmas": True,
    "num_train_timesteps": 1,
    "shift": 1.0,
    "use_dynamic_shifting": False,
}


def _modular_index() -> dict[str, object]:
    classes = {
        "tokenizer": ("transformers", "Qwen2Tokenizer"),
        "language_model": ("transformers", "Qwen3ForCausalLM"),
        "rvq_depth_decoder": ("diffusers", "MiniMaxMusic3RVQDepthDecoder"),
        "condition_encoder": ("diffusers", "MiniMaxMusic3ConditionEncoder"),
        "transformer": ("diffusers", "MiniMaxMusic3Transformer1DModel"),
        "scheduler": ("diffusers", "FlowMatchEulerDiscreteScheduler"),
        "vocoder": ("diffusers", "MiniMaxMusic3Vocoder"),
    }
    index: dict[str, object] = {
        "_blocks_class_name": "MiniMaxMusic3Blocks",
        "_class_name": "MiniMaxMusic3ModularPipeline",
        "_diffusers_version": "0.40.0",
    }
    for name, (library, kind) in classes.items():
        source = {
            # As in the released index: a hub repository, whatever folder the index lies in.
            "pretrained_model_name_or_path": "MiniMaxAI/MiniMax-Music3",
            "revision": None,
            "subfolder": name,
            "type_hint": [library, kind],
            "variant": None,
        }
        index[name] = [library, kind, source]
    return index


def _split(shapes: Mapping[str, tuple[int, ...]], dtype_bytes: int, shards: int) -> list[list[str]]:
    """Tensor names in order, cut into `shards` runs of about equal bytes."""
    sizes = {name: math.prod(shape) * dtype_bytes for name, shape in shapes.items()}
    share = sum(sizes.values()) / shards
    runs: list[list[str]] = [[]]
    filled, left = 0, len(sizes)
    for name, size in sizes.items():
        full = filled >= share or left == shards - len(runs)
        if full and len(runs) < shards:
            runs.append([])
            filled = 0
        runs[-1].append(name)
        filled, left = filled + size, left - 1
    return runs


def _write_json(file: Path, data: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
