"""Other sample rates, in a stream: torchaudio's own resampling, block by block, equal to one call on the whole song.

A block begins at a multiple of the rates' period (441 input samples for 44 100 to 32 000 Hz) and is resampled together
with one period of its neighbours on both sides, whose outputs are dropped. The filter reaches less than a period to
either side, so every output that is kept sees the same products in the same order as in one call on the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from music3_cli.errors import UsageError

BLOCK_SAMPLES = 2**16
"""About this many input samples are resampled at once."""


def torchaudio_resample() -> Callable[..., Any]:
    """torchaudio's `functional.resample`.

    Raises:
        UsageError: torchaudio is missing or does not fit the installed torch.
    """
    try:
        from torchaudio.functional import resample
    except Exception as error:  # a torchaudio for another torch fails in many ways, OSError and RuntimeError among them
        reason = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded ({error})"
        raise UsageError(
            f"a sample rate other than the model's own needs torchaudio, which {reason}",
            hint="Install the torchaudio that fits your torch (pip install torchaudio), or leave --sample-rate out.",
        ) from None
    function: Callable[..., Any] = resample
    return function


class Resampler:
    """Resamples a song while it arrives; holds less than two blocks of it.

    What comes out, put together, equals `torchaudio.functional.resample(whole, source, target)` bit for bit.

    Args:
        source, target: sample rates in Hz.
        block: input samples that are resampled at once.

    Raises:
        UsageError: no torchaudio.
    """

    def __init__(self, source: int, target: int, block: int = BLOCK_SAMPLES) -> None:
        divisor = math.gcd(source, target)
        self._source, self._target = source, target
        self._period, self._new_period = source // divisor, target // divisor
        self._block = max(1, block // self._period) * self._period
        self._resample = torchaudio_resample()
        self._waiting: list[np.ndarray] = []
        self._buffered, self._taken, self._given = 0, 0, 0
        self._first = True

    def push(self, sound_CS: np.ndarray) -> np.ndarray:
        """Take [C, n] float32 samples; gives [C, m] float32, the outputs that are certain by now."""
        self._waiting.append(sound_CS)
        self._buffered += sound_CS.shape[1]
        self._taken += sound_CS.shape[1]
        done = []
        # A block needs a period behind it; before it stands the last block's last period, but at the beginning.
        needed = self._block + self._period + (0 if self._first else self._period)
        if self._buffered >= needed:
            held = np.concatenate(self._waiting, 1)
            while held.shape[1] >= needed:
                done.append(self._run(held[:, :needed])[:, : -self._new_period])
                held = held[:, needed - 2 * self._period :]
                self._first = False
                needed = self._block + 2 * self._period
            self._waiting, self._buffered = [held], held.shape[1]
        return self._join(done, sound_CS)

    def finish(self) -> np.ndarray:
        """[C, m] the rest."""
        import torch

        if not self._waiting:
            return np.zeros((2, 0), np.float32)
        held = np.concatenate(self._waiting, 1)
        rest = self._run(held) if held.shape[1] else held
        # torchaudio's own rounding of the length, which is float32 and differs from the exact one in long songs.
        whole = int(torch.ceil(torch.as_tensor(self._new_period * self._taken / self._period)))
        return np.ascontiguousarray(rest[:, : whole - self._given])

    def _run(self, held_CS: np.ndarray) -> np.ndarray:
        """Resample; outputs of the period before the block are dropped."""
        import torch

        resampled: np.ndarray = self._resample(torch.from_numpy(held_CS.copy()), self._source, self._target).numpy()
        return resampled if self._first else resampled[:, self._new_period :]

    def _join(self, parts: list[np.ndarray], like_CS: np.ndarray) -> np.ndarray:
        joined = np.concatenate(parts, 1) if parts else np.zeros((like_CS.shape[0], 0), np.float32)
        self._given += joined.shape[1]
        return joined
