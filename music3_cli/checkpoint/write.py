"""Writing the modular layout: a component's config, shards and index, and the modular index.

Where bytes come from is the caller's business.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from music3_cli.checkpoint.headers import DTYPE_BYTES, Buffer, write_weight_file
from music3_cli.checkpoint.layout import BLOCKS_CLASS, CLASSES, PIPELINE_CLASS, Component, Shapes

SHARDS = {"language_model": 4, "transformer": 2}
"""Components that are released in several files."""


def write_component(
    folder: Path,
    component: Component,
    shapes: Shapes,
    config: Mapping[str, Any],
    data: Callable[[str], Iterator[Buffer]],
) -> None:
    """Write one component's new folder, in as many shards as released.

    Args:
        data: tensor name -> its bytes in the component's dtype, in blocks.
    """
    folder.mkdir(parents=True)
    write_json(folder / "config.json", config)
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
            (block for name in names for block in data(name)),
        )
    if len(shards) > 1:
        total = sum(math.prod(shape) for shape in shapes.values()) * DTYPE_BYTES[component.dtype]
        write_json(folder / component.index_file, {"metadata": {"total_size": total}, "weight_map": weight_map})


def modular_index() -> dict[str, object]:
    index: dict[str, object] = {
        "_blocks_class_name": BLOCKS_CLASS,
        "_class_name": PIPELINE_CLASS,
        "_diffusers_version": "0.40.0",
    }
    for name, (library, kind) in CLASSES.items():
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


def write_json(file: Path, data: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
