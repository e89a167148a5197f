"""A native packaging made from a modular checkpoint, by the inverse of the name map."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.checkpoint.native import FLOW_FILE, TALKER_FOLDER, TOKENIZER_FOLDER, VOCODER_FILE, source_of


def component_tensors(root: Path, component: str) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for header in open_checkpoint(root).components[component].headers:
        tensors.update(load_file(header.path))
    return tensors


def native_tensors(root: Path, component: str) -> dict[str, torch.Tensor]:
    """A component's tensors under their native names, split ones fused again."""
    parts: dict[str, dict[int, torch.Tensor]] = {}
    for name, tensor in component_tensors(root, component).items():
        source = source_of(component, name)
        parts.setdefault(source.name, {})[source.part] = tensor
    return {name: torch.cat([blocks[i] for i in sorted(blocks)]) for name, blocks in parts.items()}


def write_native(root: Path, dest: Path, shards: int = 3, with_index: bool = False, **more: Any) -> None:
    """Write `dest` from the modular folder `root`.

    Args:
        shards: files of the talker.
        more: further content of the flow file, beside its tensors.
    """
    talker = native_tensors(root, "language_model") | native_tensors(root, "rvq_depth_decoder")
    folder = dest / TALKER_FOLDER
    folder.mkdir(parents=True)
    names = sorted(talker)
    weight_map = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        own = {name: talker[name].contiguous() for name in names[number::shards]}
        save_file(own, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(own, file))
    if with_index:
        import json

        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    flow = native_tensors(root, "transformer") | native_tensors(root, "condition_encoder")
    torch.save({**flow, **more}, dest / FLOW_FILE)
    # The real file holds the encoder too, which nothing needs.
    vocoder = native_tensors(root, "vocoder") | {"encoder.model.0.weight_v": torch.ones(4, 4, 7)}
    torch.save(vocoder, dest / VOCODER_FILE)
    shutil.copytree(root / "tokenizer", dest / TOKENIZER_FOLDER)
