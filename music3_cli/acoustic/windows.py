"""Windows over a song's frames: which frames, how many latents, which samples are kept. Pure arithmetic, no torch."""

from __future__ import annotations

from dataclasses import dataclass

from music3_cli.checkpoint.layout import ConditionConfig

WINDOW_FRAMES = 200
HOP_FRAMES = 100

OVERLAP_LATENTS = 172
"""Latents that a window takes over from its predecessor."""
CROP_LEFT_LATENTS = 86
CROP_RIGHT_LATENTS = 258
"""What the join drops of a window that has a predecessor, and of one that has a successor."""


@dataclass(frozen=True)
class Window:
    """One window.

    Attributes:
        index: counted from 0.
        start, stop: frames [start, stop) of the song.
        latents: its length on the latent grid.
        keep_start, keep_stop: latents that the join keeps of it.
    """

    index: int
    start: int
    stop: int
    latents: int
    keep_start: int
    keep_stop: int


def plan_windows(frames: int, condition: ConditionConfig) -> list[Window]:
    """The windows of a song of `frames` frames (spec section 4): 200 frames each, 100 apart, the last one shorter."""
    starts = [0] if frames <= WINDOW_FRAMES else list(range(0, frames - HOP_FRAMES, HOP_FRAMES))
    windows = []
    for index, start in enumerate(starts):
        stop = min(start + WINDOW_FRAMES, frames)
        latents = condition.latents(stop - start)
        keep_start = 0 if index == 0 else CROP_LEFT_LATENTS
        keep_stop = latents if index == len(starts) - 1 else latents - CROP_RIGHT_LATENTS
        windows.append(Window(index, start, stop, latents, keep_start, keep_stop))
    return windows


def song_samples(frames: int, condition: ConditionConfig) -> int:
    """Samples a channel of a finished song of `frames` frames."""
    kept = sum(window.keep_stop - window.keep_start for window in plan_windows(frames, condition))
    return kept * condition.output_hop_length
