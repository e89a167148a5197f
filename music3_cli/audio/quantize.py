"""From float samples to the integers of a file: scale, dither, round, and a count of what did not fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Words = Callable[[int], np.ndarray]
"""The next n random 64-bit words of a song, as uint64."""


class Quantizer:
    """Rounds a song to `bits`, block by block.

    Full scale is 2^(bits-1), so that a file read back as float has the level that was written. Dither is triangular,
    one step to either side, from one word a sample: the sum of its halves as two uniform numbers (TPDF; Lipshitz,
    Wannamaker & Vanderkooy 1992). Samples outside the range are limited (`Encoder` counts those over full scale).

    Args:
        bits: 16 or 24.
        words: for dither; None rounds to the nearest.
    """

    def __init__(self, bits: int, words: Words | None) -> None:
        self._scale = 2.0 ** (bits - 1)
        self._words = words
        # soundfile takes 24-bit samples as the upper bits of 32.
        self._type, self._shift = (np.int16, 0) if bits == 16 else (np.int32, 32 - bits)

    def __call__(self, sound_CS: np.ndarray) -> np.ndarray:
        """[C, n] float samples to [n, C] integers as soundfile takes them."""
        steps = sound_CS.T.astype(np.float64) * self._scale
        if self._words is not None:
            words = self._words(steps.size).reshape(steps.shape)
            steps += ((words & np.uint64(0xFFFFFFFF)) + (words >> np.uint64(32))).astype(np.float64) * 2.0**-32 - 1.0
        rounded = np.clip(np.rint(steps), -self._scale, self._scale - 1).astype(self._type)
        return np.ascontiguousarray(rounded << self._shift)
