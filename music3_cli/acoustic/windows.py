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


def window_at(index: int, frames: int, whole: bool, condition: ConditionConfig) -> Window | None:
    """Window `index` as far as it can be known from the song's first `frames` frames.

    A window of a growing song is known with the first frame behind it: that frame gives it a successor, and so its
    kept span. Then it is what it will be in the whole song, whatever its length.

    Args:
        whole: whether the song has no more frames.

    Returns:
        None where the window is not known yet, or (of a whole song) does not exist.
    """
    start = index * HOP_FRAMES
    last = start + WINDOW_FRAMES >= frames
    if (last and not whole) or (index > 0 and frames <= start + HOP_FRAMES) or frames < 1:
        return None
    stop = min(start + WINDOW_FRAMES, frames)
    latents = condition.latents(stop - start)
    keep_start = 0 if index == 0 else CROP_LEFT_LATENTS
    return Window(index, start, stop, latents, keep_start, latents if last else latents - CROP_RIGHT_LATENTS)


def count_windows(frames: int) -> int:
    """Windows of a song of `frames` frames."""
    return 1 if frames <= WINDOW_FRAMES else -((WINDOW_FRAMES - frames) // HOP_FRAMES) + 1


def plan_windows(frames: int, condition: ConditionConfig) -> list[Window]:
    """The windows of a song of `frames` frames (spec section 4): 200 frames each, 100 apart, the last one shorter."""
    windows = (window_at(index, frames, True, condition) for index in range(count_windows(frames)))
    return [window for window in windows if window is not None]


def song_samples(frames: int, condition: ConditionConfig) -> int:
    """Samples a channel of a finished song of `frames` frames."""
    kept = sum(window.keep_stop - window.keep_start for window in plan_windows(frames, condition))
    return kept * condition.output_hop_length
