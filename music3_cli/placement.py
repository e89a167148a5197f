"""What runs where and how much of it at once: one decision from sizes and free memory. Pure arithmetic, no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class RunLimits:
    """What a run must have room for.

    Attributes:
        songs: how many there are; no more than these run at once.
        positions: context of the longest song: its prompt, the unemitted first step and all frames.
        frames: the highest ceiling.
    """

    songs: int
    positions: int
    frames: int

    @classmethod
    def of(cls, lengths: Iterable[tuple[int, int]]) -> RunLimits:
        """For songs given as (prompt tokens, ceiling in frames); at least one."""
        songs = list(lengths)
        return cls(len(songs), max(prompt + frames + 1 for prompt, frames in songs), max(frames for _, frames in songs))
