"""Small things about files that several layers need."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def file_sha256(path: Path) -> str:
    """sha256 of a file's content, read in blocks."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(2**20):
            total.update(block)
    return total.hexdigest()


def write_whole(path: Path, content: bytes) -> None:
    """Make or replace a file in one step: written beside under an unfinished file's name, then renamed into place.

    Raises:
        OSError: the folder does not take it; nothing of it is left.
    """
    partial = path.with_name(f".music3-{os.getpid()}-{path.name}")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
