"""Small things about files that several layers need."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PARTIAL_PREFIX = ".music3-"
"""Unfinished files begin so; none of them is ever taken for a song."""


def partial_path(path: Path) -> Path:
    """Where `path` is written before it is whole: beside it, under a name of this process."""
    return path.with_name(f"{PARTIAL_PREFIX}{os.getpid()}-{path.name}")


def write_whole(path: Path, data: bytes) -> None:
    """Write beside and rename into place; `path` is never half a file.

    Raises:
        OSError: the folder does not take it; nothing is left.
    """
    partial = partial_path(path)
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def file_sha256(path: Path) -> str:
    """sha256 of a file's content, read in blocks."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(2**20):
            total.update(block)
    return total.hexdigest()
