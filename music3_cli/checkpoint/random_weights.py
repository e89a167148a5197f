"""Checkpoints of random weights in exactly the released layout: the demo, and full-size ones for benchmarks.

Knows the folder structure and how large each kind of weight must be for activations to stay in range; where the random
bytes come from is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from music3_cli.checkpoint.headers import DTYPE_BYTES, Buffer
from music3_cli.checkpoint.layout import AUDIO_END, COMPONENTS, Component, Shapes
from music3_cli.checkpoint.write import modular_index, total_bytes, write_component, write_json

SHARDS = {"language_model": 4, "transformer": 2}
"""Components that are released in several files."""

Fill = Callable[[Component, str, tuple[int, ...], "Spread"], Buffer]
"""(component, tensor name, shape, spread) -> the tensor's bytes in the component's dtype."""


@dataclass(frozen=True)
class Spread:
    """Distribution of one tensor.

    Attributes:
        centre, deviation: mean and standard deviation.
        zero_row: a row that is all zeros, if any.
        level: whether the last dimension's mean is taken away, so that a convolution lets no constant through.
    """

    centre: float
    deviation: float
    zero_row: int | None = None
    level: bool = False


def spread_of(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Spread:
    """A tensor's distribution: linear and convolution weights keep the variance of what they are given, norms and
    snakes are near one, biases near zero.

    The head's row of `<|audio_end|>` is zero, which is never among the 50 likeliest: a song of random weights lasts
    until its ceiling. The last convolution lets no constant through: snakes have a mean, sound has none. `strides` are
    the vocoder's upsampling ratios.
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
        return Spread(0, 0.05 if name != "conv_out.bias" else 0)
    if name == "time_proj.weight":
        return Spread(0, 1.0)
    return Spread(0, 1 / math.sqrt(math.prod(shape[1:])), level=name == "conv_out.weight_v")


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
        shapes = component.config.from_json(configs[component.name], Path(component.name)).shapes()

        def data(name: str, component: Component = component, shapes: Shapes = shapes) -> Iterator[Buffer]:
            yield fill(component, name, shapes[name], spread_of(name, shapes[name], strides))

        folder = dest / component.name
        write_json(folder / "config.json", configs[component.name])
        shards = _split(shapes, DTYPE_BYTES[component.dtype], SHARDS.get(component.name, 1))
        if weight_map := write_component(folder, component, shapes, shards, data):
            total = {"total_size": total_bytes(component, shapes)}
            write_json(folder / component.index_file, {"metadata": total, "weight_map": weight_map})
    write_json(dest / "language_model" / "generation_config.json", {"eos_token_id": AUDIO_END})
    write_json(dest / "scheduler" / "scheduler_config.json", SCHEDULER)
    write_json(dest / "modular_model_index.json", modular_index("0.40.0"))
    write_json(dest / "config.json", root_config)
    (dest / "LICENSE").write_text("Random weights made by music3. They may be used for anything.\n", encoding="utf-8")


SCHEDULER = {
    "_class_name": "FlowMatchEulerDiscreteScheduler",
    "invert_sigmas": True,
    "num_train_timesteps": 1,
    "shift": 1.0,
    "use_dynamic_shifting": False,
}


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
