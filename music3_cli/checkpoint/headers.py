"""Safetensors headers: what a weight file says it holds, read and checked without reading the weights.

The file format: 8 bytes little-endian header length, that many bytes of JSON, then the tensors' bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from music3_cli.checkpoint.findings import Fault, Finding, faults, first_few
from music3_cli.errors import raise_all

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
        Fault, ManyErrors: missing, no plain file, truncated, header too long or not JSON, tensors that overlap, leave
            gaps or do not fit.
    """
    raw, size = _read_raw(path)
    tensors = _parse(path, raw)
    wrong = []
    end = 0
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end:
            kind = "gap" if entry.start > end else "overlap"
            wrong.append(_bad(path, f"{kind}: tensor {name} begins at byte {entry.start:,}", f"byte {end:,}"))
        needed = entry.parameters * DTYPE_BYTES[entry.dtype]
        if entry.stop - entry.start != needed:
            what = f"tensor {name} of shape {list(entry.shape)} {entry.dtype} has {entry.stop - entry.start:,} bytes"
            wrong.append(_bad(path, what, f"{needed:,} bytes"))
        end = max(end, entry.stop)
    wrong = first_few(wrong, "such tensors")
    total = 8 + len(raw) + end
    if size != total:
        kind = "truncated" if size < total else "longer"
        text = "truncated" if size < total else "longer than its header says"
        wrong.append(Finding(kind, path, f"{text}: {size:,} bytes", f"{total:,} bytes"))
    raise_all(faults(wrong))
    return Header(path, tensors, len(raw), size, hashlib.sha256(raw).hexdigest())


def _read_raw(path: Path) -> tuple[bytes, int]:
    """A header's bytes and the file's size."""
    try:
        # Opening a pipe or a device would wait for ever or read what is no file.
        if path.exists() and not path.is_file():
            raise Fault(Finding("unreadable", path, "not a plain file"))
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            prefix = stream.read(8)
            if len(prefix) < 8:
                raise Fault(Finding("truncated", path, f"truncated: {size} bytes", "a weight file"))
            length = int.from_bytes(prefix, "little")
            if length > min(MAX_HEADER_BYTES, size - 8):
                raise Fault(_bad(path, f"its header should be {length:,} bytes long, the file has {size:,} bytes"))
            return stream.read(length), size
    except FileNotFoundError:
        raise Fault(Finding("missing", path, "missing")) from None
    except OSError as error:
        raise Fault(
            Finding("unreadable", path, f"cannot be read ({error.strerror or error})", hint="Check its permissions.")
        ) from None


def _parse(path: Path, raw: bytes) -> dict[str, TensorEntry]:
    try:
        entries = parse_json(raw)
        if not isinstance(entries, dict):
            raise ValueError
        entries.pop("__metadata__", None)
        return {name: _entry(entry) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Fault(_bad(path, "its header is not readable as safetensors")) from None


def _bad(path: Path, found: str, expected: str = "") -> Finding:
    return Finding("header", path, found, expected)


def parse_json(raw: bytes) -> Any:
    """JSON in which no name comes twice in an object: readers differ about which one counts.

    Raises:
        ValueError, RecursionError: not JSON, or a name comes twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            raise ValueError("a name comes twice")
        return content

    return json.loads(raw, object_pairs_hook=unique)


def _entry(entry: dict[str, object]) -> TensorEntry:
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not isinstance(offsets, list) or dtype not in DTYPE_BYTES:
        raise ValueError
    start, stop = offsets
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in (*shape, start, stop)):
        raise ValueError
    if start > stop:
        raise ValueError
    return TensorEntry(str(dtype), tuple(shape), start, stop)


def tensor_blocks(header: Header, entry: TensorEntry, block_bytes: int) -> Iterator[bytes]:
    """A tensor's bytes, in blocks.

    Raises:
        Fault: the file cannot be read, or ends too early.
    """
    try:
        with header.path.open("rb", buffering=0) as stream:
            stream.seek(8 + header.header_bytes + entry.start)
            left = entry.stop - entry.start
            while left:
                block = stream.read(min(left, block_bytes))
                if not block:
                    raise Fault(Finding("truncated", header.path, "ends inside a tensor"))
                left -= len(block)
                yield block
    except OSError as error:
        raise Fault(Finding("unreadable", header.path, f"cannot be read ({error.strerror or error})")) from None


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
