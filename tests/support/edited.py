"""Checkpoints with one thing changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from music3_cli.checkpoint.headers import read_header


def edited_copy(demo_root: Path, file: str, tensor: str, edit: Callable[[np.ndarray], None]) -> Path:
    """A copy of the demo checkpoint with one tensor changed; its values come as uint16 (bf16) or float32."""
    copy = Path("checkpoint")
    shutil.copytree(demo_root, copy)
    header = read_header(copy / file)
    entry = header.tensors[tensor]
    dtype = np.dtype("<u2" if entry.dtype == "BF16" else "<f4")
    data = np.memmap(copy / file, dtype, "r+", 8 + header.header_bytes + entry.start, entry.shape)
    edit(data)
    data.flush()
    return copy
