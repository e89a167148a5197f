"""Reading every byte: a file's sha256 and, in the same pass, whether its weights can be used.

numpy only; small blocks, so that memory stays small whatever the file's size and sums stay in the cache.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from music3_cli.checkpoint.findings import Finding
from music3_cli.checkpoint.headers import DTYPE_BYTES, Header
from music3_cli.checkpoint.workers import Work

if TYPE_CHECKING:
    import numpy as np

BLOCK_BYTES = 2**20


@dataclass
class Statistics:
    """Values of one tensor or of many together."""

    tensors: int = 0
    values: int = 0
    not_finite: int = 0
    zeros: int = 0
    smallest: float = math.inf
    largest: float = -math.inf
    total: float = 0.0
    squares: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.finite if self.finite else math.nan

    @property
    def deviation(self) -> float:
        return math.sqrt(max(0.0, self.squares / self.finite - self.mean**2)) if self.finite else math.nan

    @property
    def finite(self) -> int:
        return self.values - self.not_finite

    def add(self, other: Statistics) -> None:
        self.tensors += other.tensors
        self.values += other.values
        self.not_finite += other.not_finite
        self.zeros += other.zeros
        self.smallest = min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)
        self.total += other.total
        self.squares += other.squares

    def to_json(self) -> dict[str, Any]:
        whole = self.finite > 0
        return {
            "tensors": self.tensors,
            "values": self.values,
            "not_finite": self.not_finite,
            "zeros": self.zeros,
            "smallest": self.smallest if whole else None,
            "largest": self.largest if whole else None,
            "mean": self.mean if whole else None,
            "deviation": self.deviation if whole else None,
        }


@dataclass
class Examined:
    """One file, read to its end."""

    path: Path
    bytes: int = 0
    sha256: str = ""
    statistics: Statistics = field(default_factory=Statistics)
    findings: list[Finding] = field(default_factory=list)


def file_digest(path: Path, work: Work) -> Examined:
    """A file's size and sha256.

    Raises:
        OSError: it cannot be read.
    """
    examined, digest = Examined(path), hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        for block in _blocks(stream, None):
            digest.update(block)
            examined.bytes += len(block)
            work.add(len(block))
    examined.sha256 = digest.hexdigest()
    return examined


def examine_weights(header: Header, work: Work) -> Examined:
    """A weight file's size, sha256, statistics, and values that cannot be used: not finite; a weight-norm scale of
    zero; a weight-norm direction of length zero, which folding would divide by.

    Raises:
        OSError: it cannot be read.
    """
    examined, digest = Examined(header.path), hashlib.sha256()
    with header.path.open("rb", buffering=0) as stream:
        for block in _blocks(stream, 8 + header.header_bytes):
            digest.update(block)
            examined.bytes += len(block)
        for name, entry in sorted(header.tensors.items(), key=lambda item: item[1].start):
            tensor = Statistics(tensors=1)
            # The rows of a direction are looked at as a whole; these tensors are small.
            whole = name.endswith("weight_v")
            for block in _blocks(stream, entry.stop - entry.start, entry.stop - entry.start if whole else BLOCK_BYTES):
                digest.update(block)
                examined.bytes += len(block)
                work.add(len(block))
                values = as_floats(block, entry.dtype)
                tensor.add(block_statistics(values))
                if whole and entry.shape and values.size:
                    rows = values.reshape(entry.shape[0], -1)
                    if empty := int((~rows.any(axis=1)).sum()):
                        examined.findings.append(
                            _unusable(
                                header, name, f"has {empty} rows of zeros", "weight-norm directions with a length"
                            )
                        )
            examined.statistics.add(tensor)
            if tensor.not_finite:
                what = f"holds {tensor.not_finite:,} of {tensor.values:,} values that are not finite"
                examined.findings.append(_unusable(header, name, what, "finite numbers"))
            if name.endswith("weight_g") and tensor.zeros:
                what = f"holds {tensor.zeros:,} zeros"
                examined.findings.append(_unusable(header, name, what, "weight-norm scales other than zero"))
        for block in _blocks(stream, None):  # what is behind the last tensor counts for the digest
            digest.update(block)
            examined.bytes += len(block)
    examined.sha256 = digest.hexdigest()
    return examined


def _unusable(header: Header, name: str, what: str, expected: str) -> Finding:
    return Finding("values", header.path, f"tensor {name} {what}", expected)


def _blocks(stream: Any, count: int | None, size: int = BLOCK_BYTES) -> Iterator[memoryview]:
    """The next `count` bytes (all that are left for None); each block is overwritten by the next."""
    buffer = memoryview(bytearray(max(1, size if count is None else min(size, count))))
    left = count
    while left is None or left > 0:
        wanted = len(buffer) if left is None else min(len(buffer), left)
        filled = 0
        while filled < wanted:
            read = stream.readinto(buffer[filled:wanted])
            if not read:
                break
            filled += read
        if filled:
            yield buffer[:filled]
        if filled < wanted:
            return
        left = None if left is None else left - filled


def as_floats(block: memoryview, dtype: str) -> np.ndarray[Any, Any]:
    """Little-endian bytes of `BF16`, `F16` or `F32` as numbers that numpy knows."""
    import numpy as np

    usable = block[: len(block) - len(block) % DTYPE_BYTES[dtype]]
    if dtype == "BF16":
        wide = np.frombuffer(usable, "<u2").astype(np.uint32)
        wide <<= 16
        return wide.view(np.float32)
    return np.frombuffer(usable, "<f2" if dtype == "F16" else "<f4").astype(np.float32, copy=False)


def block_statistics(values: np.ndarray[Any, Any]) -> Statistics:
    """Statistics of the float32 values of one block; sums over the finite ones."""
    import numpy as np

    count = int(values.size)
    with np.errstate(invalid="ignore", over="ignore"):
        total = float(values.sum())
        if not math.isfinite(total):
            values = values[np.isfinite(values)]
            total = float(values.sum(dtype=np.float64))
        if not values.size:
            return Statistics(values=count, not_finite=count)
        return Statistics(
            values=count,
            not_finite=count - int(values.size),
            zeros=int(np.count_nonzero(values == 0)),
            smallest=float(values.min()),
            largest=float(values.max()),
            total=total,
            squares=float(np.dot(values, values)),
        )
