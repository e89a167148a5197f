"""Safetensors headers: what a weight file says it holds, read and checked without reading the weights.

The file format: 8 bytes little-endian header length, that many bytes of JSON, then the tensors' bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from music3_cli.errors import CheckpointError

Buffer: TypeAlias = "bytes | bytearray | memoryview"

MAX_HEADER_BYTES = 100 * 2**20
"""The format's own limit; a larger number is damage or malice."""

DTYPE_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a header; `start` and `stop` are byte offsets behind the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def parameters(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True)
class Header:
    """One weight file's header. `digest` is the sha256 of the header's bytes."""

    path: Path
    tensors: dict[str, TensorEntry]
    header_bytes: int
    file_bytes: int
    digest: str


def read_header(path: Path) -> Header:
    """Read and check one file's header.

    Raises:
        CheckpointError: missing, truncated, too long, not JSON, or tensors that overlap, leave gaps or do not fit.
    """

    def bad(what: str) -> CheckpointError:
        return CheckpointError(f"{path}: {what}", hint="The file is damaged or half downloaded: fetch it again.")

    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            prefix = stream.read(8)
            if len(prefix) < 8:
                raise bad(f"{size} bytes; a weight file was expected")
            length = int.from_bytes(prefix, "little")
            if length > min(MAX_HEADER_BYTES, size - 8):
                raise bad(f"its header should be {length:,} bytes long, the file has {size:,} bytes")
            raw = stream.read(length)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing", hint="The checkpoint is incomplete: fetch this file.") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from None
    try:
        entries = json.loads(raw)
        if not isinstance(entries, dict):
            raise ValueError
        entries.pop("__metadata__", None)
        tensors = {name: _entry(entry) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise bad("its header is not readable as safetensors") from None
    end = 0
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end:
            raise bad(f"tensor {name} begins at byte {entry.start:,}, {end:,} was expected (gap or overlap)")
        if entry.stop - entry.start != entry.parameters * DTYPE_BYTES[entry.dtype]:
            raise bad(
                f"tensor {name} of shape {list(entry.shape)} {entry.dtype} has {entry.stop - entry.start:,} bytes"
            )
        end = entry.stop
    if size != 8 + length + end:
        kind = "truncated" if size < 8 + length + end else "longer than its header says"
        raise bad(f"{kind}: {size:,} bytes, {8 + length + end:,} were expected")
    return Header(path, tensors, length, size, hashlib.sha256(raw).hexdigest())


def _entry(entry: dict[str, object]) -> TensorEntry:
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not isinstance(offsets, list) or dtype not in DTYPE_BYTES:
        raise ValueError
    start, stop = offsets
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in (*shape, start, stop)):
        raise ValueError
    return TensorEntry(str(dtype), tuple(shape), start, stop)


def write_weight_file(path: Path, tensors: Sequence[tuple[str, str, tuple[int, ...]]], data: Iterable[Buffer]) -> None:
    """Write a safetensors file as a stream, so that a shard is never held in memory.

    Args:
        tensors: name, dtype (`BF16`, `F32`) and shape of each, in file order.
        data: the tensors' bytes in the same order.
    """
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, dtype, shape in tensors:
        start, end = end, end + TensorEntry(dtype, shape, 0, 0).parameters * DTYPE_BYTES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    raw = json.dumps(entries, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    with path.open("wb") as stream:
        stream.write(len(raw).to_bytes(8, "little") + raw)
        for block in data:
            stream.write(block)
    written = path.stat().st_size
    if written != 8 + len(raw) + end:
        raise ValueError(f"{path}: {written} bytes written, {8 + len(raw) + end} announced")
