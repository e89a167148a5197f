"""The released checkpoint as published: its files with sizes and digests, its configs. Reads no checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from music3_cli.checkpoint.layout import CLASSES
from music3_cli.checkpoint.write import modular_index, sorted_json

_DIFFUSERS, _TRANSFORMERS = "0.40.0.dev0", "5.13.0.dev0"
"""Versions that wrote the released files, and stand in them."""

REPOSITORY = "MiniMaxAI/MiniMax-Music3"
LICENSE_NAME = "MiniMax-Music3 COMMUNITY LICENSE"
LICENSE_TERMS = (
    "commercial use under conditions; machine-made content must be disclosed; it is neither Apache nor CC-BY"
)


def license_link(repository: str, revision: str) -> str:
    return f"https://huggingface.co/{repository}/blob/{revision}/LICENSE"


@dataclass(frozen=True)
class FileEntry:
    """One file: path inside the checkpoint, size, sha256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class FileTable:
    """All files of one revision of one repository."""

    repository: str
    revision: str
    files: Mapping[str, FileEntry]

    @property
    def total_bytes(self) -> int:
        return sum(entry.bytes for entry in self.files.values())

    @property
    def label(self) -> str:
        return f"{self.repository}@{self.revision[:12]}" if self.revision else self.repository


@cache
def _released() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(__file__).with_name("released.json").read_bytes())
    return content


@cache
def released_table() -> FileTable:
    """The 24 files of the pinned revision."""
    content = _released()
    files = {file["path"]: FileEntry(file["path"], file["bytes"], file["sha256"]) for file in content["files"]}
    return FileTable(content["repository"], content["revision"], files)


def released_small_files() -> dict[str, bytes]:
    """The text files without which nothing loads, byte for byte as published: configs, indexes of components and the
    modular index. Not in it: licence, the root's config, tokenizer, and what the conversion makes (shard indexes).
    """
    content = _released()
    configs = {
        f"{name}/config.json": {
            "_class_name": CLASSES[name][1],
            "_diffusers_version": _DIFFUSERS,
            **component["config"],
        }
        for name, component in content["components"].items()
        if name != "language_model"
    }
    configs["scheduler/scheduler_config.json"] = {"_diffusers_version": _DIFFUSERS, **content["scheduler"]}
    backbone = content["components"]["language_model"]["config"]
    configs["language_model/config.json"] = {
        **backbone,
        # transformers' defaults, which it writes out.
        "bos_token_id": None,
        "eos_token_id": None,
        "initializer_range": 0.02,
        "layer_types": ["full_attention"] * backbone["num_hidden_layers"],
        "max_window_layers": 28,
        "pad_token_id": None,
        "sliding_window": None,
        "transformers_version": _TRANSFORMERS,
        "use_cache": True,
        "use_sliding_window": False,
    }
    configs["language_model/generation_config.json"] = {
        "_from_model_config": True,
        "output_attentions": False,
        "output_hidden_states": False,
        "transformers_version": _TRANSFORMERS,
        "use_cache": True,
    }
    texts = {path: sorted_json(config) + "\n" for path, config in configs.items()}
    texts["modular_model_index.json"] = sorted_json(modular_index(_DIFFUSERS))
    return {path: text.encode() for path, text in texts.items()}
