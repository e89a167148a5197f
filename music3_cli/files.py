"""Small things about files that several layers need."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_sha256(path: Path) -> str:
    """sha256 of a file's content, read in blocks."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(2**20):
            total.update(block)
    return total.hexdigest()
