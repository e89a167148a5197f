"""Writing the modular layout: shards, their indexes and the modular index.

Where bytes come from is the caller's business.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from music3_cli.checkpoint.headers import DTYPE_BYTES, Buffer, write_weight_file
from music3_cli.checkpoint.layout import BLOCKS_CLASS, CLASSES, PIPELINE_CLASS, Component, Shapes

SHARD_BYTES = 5 * 10**9
"""The greatest shard of the released layout."""


def write_component(
    folder: Path,
    component: Component,
    shapes: Shapes,
    shards: Sequence[Sequence[str]],
    data: Callable[[str], Iterator[Buffer]],
) -> dict[str, str]:
    """Write one component's weight files.

    Args:
        shards: tensor names of each file, in file order; one shard is a single file without an index.
        data: tensor name -> its bytes in the component's dtype, in blocks.

    Returns:
        tensor name -> its shard; empty for a single file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weight_map = {}
    for number, names in enumerate(shards, start=1):
        file = shard_name(component, number, len(shards))
        weight_map.update(dict.fromkeys(names, file))
        write_weight_file(
            folder / file,
            [(name, component.dtype, shapes[name]) for name in names],
            (block for name in names for block in data(name)),
        )
    return weight_map if len(shards) > 1 else {}


def shard_name(component: Component, number: int, count: int) -> str:
    return component.single_file if count == 1 else f"{component.stem}-{number:05d}-of-{count:05d}.safetensors"


def total_bytes(component: Component, shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values()) * DTYPE_BYTES[component.dtype]


def released_shards(component: Component, shapes: Shapes) -> list[list[str]]:
    """Shards as the released files have them: in the model's order up to 5 GB a file, sorted by name inside a file."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name, shape in shapes.items():
        size = math.prod(shape) * DTYPE_BYTES[component.dtype]
        if filled + size > SHARD_BYTES:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += size
    return [sorted(names) for names in shards]


def released_index(component: Component, shapes: Shapes, weight_map: Mapping[str, str]) -> str:
    """The index file's text as the released files have it: transformers counts the parameters, diffusers does not."""
    metadata = {"total_size": total_bytes(component, shapes)}
    if CLASSES[component.name][0] == "transformers":
        metadata["total_parameters"] = sum(math.prod(shape) for shape in shapes.values())
    return sorted_json({"metadata": metadata, "weight_map": weight_map}) + "\n"


def sorted_json(data: object) -> str:
    return json.dumps(data, indent=2, sort_keys=True)


def modular_index(version: str) -> dict[str, object]:
    """The modular index, as diffusers of a version writes it."""
    index: dict[str, object] = {
        "_blocks_class_name": BLOCKS_CLASS,
        "_class_name": PIPELINE_CLASS,
        "_diffusers_version": version,
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


def write_json(file: Path, data: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
