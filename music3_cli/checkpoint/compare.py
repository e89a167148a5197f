"""Two modular folders, tensor by tensor: equal, different, missing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from music3_cli.checkpoint.headers import Header, TensorEntry, tensor_blocks
from music3_cli.checkpoint.inventory import Checkpoint
from music3_cli.checkpoint.workers import Work, run_jobs
from music3_cli.events import Event

BLOCK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Comparison:
    """Two modular folders, tensor by tensor; names are `component/tensor`.

    Attributes:
        equal: same name, dtype, shape and bytes.
        different: name -> how.
        missing: in the other folder only. extra: in this folder only.
    """

    equal: int
    different: Mapping[str, str]
    missing: Sequence[str]
    extra: Sequence[str]

    @property
    def is_equal(self) -> bool:
        return not (self.different or self.missing or self.extra)


def compare_tensors(mine: Checkpoint, other: Checkpoint) -> Generator[Event, None, Comparison]:
    """Compare every tensor's bytes.

    Yields:
        progress.
    """
    here, there = _all_tensors(mine), _all_tensors(other)
    common = [name for name in here if name in there]
    groups: dict[Path, list[str]] = {}
    for name in common:
        groups.setdefault(here[name][0].path, []).append(name)
    jobs = [partial(_compare_group, [(name, here[name], there[name]) for name in names]) for names in groups.values()]
    total = sum(entry.stop - entry.start for _, entry in (here[name] for name in common))
    found = yield from run_jobs("check", jobs, total)
    different = {name: how for group in found for name, how in group.items()}
    missing = sorted(set(there) - set(here))
    return Comparison(len(common) - len(different), different, missing, sorted(set(here) - set(there)))


def _all_tensors(checkpoint: Checkpoint) -> dict[str, tuple[Header, TensorEntry]]:
    return {
        f"{component}/{name}": place
        for component, files in checkpoint.components.items()
        for name, place in files.tensors.items()
    }


Pair = tuple[str, tuple[Header, TensorEntry], tuple[Header, TensorEntry]]


def _compare_group(pairs: Sequence[Pair], work: Work) -> dict[str, str]:
    different = {}
    for name, (header, entry), (other_header, other_entry) in pairs:
        size = entry.stop - entry.start
        if (entry.dtype, entry.shape) != (other_entry.dtype, other_entry.shape):
            theirs = f"{other_entry.dtype} {list(other_entry.shape)}"
            different[name] = f"{entry.dtype} {list(entry.shape)} here, {theirs} there"
            work.add(size)
            continue
        bad = 0
        mine, others = tensor_blocks(header, entry, BLOCK_BYTES), tensor_blocks(other_header, other_entry, BLOCK_BYTES)
        for one, two in zip(mine, others, strict=True):
            bad += _different_bytes(one, two)
            work.add(len(one))
        if bad:
            different[name] = f"{bad:,} of {size:,} bytes"
    return different


def _different_bytes(one: bytes, two: bytes) -> int:
    if one == two:
        return 0
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(one, np.uint8) != np.frombuffer(two, np.uint8)))
