"""The released checkpoint as published: its files with sizes and digests, its configs. Reads no checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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


def released_configs() -> dict[str, dict[str, Any]]:
    """Each weight component's config, and the scheduler's under `scheduler`."""
    content = _released()
    return {
        **{name: component["config"] for name, component in content["components"].items()},
        "scheduler": content["scheduler"],
    }
