"""The only source of random numbers: every draw is a function of (seed, stage, position). Spec section 5.

Two schemes. `server` is stateless: a talker draw hashes (seed, position, column), a window's noise has a generator of
its own, so no song depends on the songs beside it. `diffusers` is the reference's: one generator a song, used in order
by all talker draws and then by all windows; it exists to compare with the reference from outside.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch

from music3_cli.checkpoint.layout import AUDIO_CODE_OFFSET, AUDIO_END

_MASK32 = 0xFFFFFFFF
_LARGEST_NEGATIVE_LOG = -(2.0**-32)
DRAWS_A_FRAME = 8


def talker_seed(seed: int) -> int:
    """The 31-bit seed of a song's talker draws, server scheme."""
    digest = hashlib.blake2b(f"minimax-ttm-ar:{seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & 0x7FFFFFFF


def window_seed(seed: int, window: int) -> int:
    """The seed of one window's noise, server scheme."""
    digest = hashlib.blake2b(digest_size=8, person=b"minimax-ttm")
    digest.update(seed.to_bytes(8, "little"))
    for text in (b"dit", str(window).encode()):
        digest.update(len(text).to_bytes(4, "little") + text)
    return int.from_bytes(digest.digest(), "little") & (2**63 - 1)


def _rotate(x: torch.Tensor, bits: int) -> torch.Tensor:
    return ((x << bits) | (x >> (32 - bits))) & _MASK32


def murmur3(words: Sequence[torch.Tensor | int], like: torch.Tensor) -> torch.Tensor:
    """MurmurHash3 x86 32-bit with hash seed 0 over 32-bit words (public domain algorithm by Austin Appleby).

    Args:
        words: int64 tensors or numbers in [0, 2^32), broadcast against `like`.
        like: int64 tensor that gives shape and device.

    Returns:
        int64 hashes in [0, 2^32). Products of two 32-bit numbers wrap in int64, which leaves their low 32 bits right.
    """
    h = torch.zeros_like(like)
    for word in words:
        k = torch.as_tensor(word, device=like.device) * 0xCC9E2D51 & _MASK32
        k = _rotate(k, 15) * 0x1B873593 & _MASK32
        h = _rotate(h ^ k, 13) * 5 + 0xE6546B64 & _MASK32
    h = h ^ (4 * len(words))
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK32
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK32
    return h ^ (h >> 16)


def gumbel(seed_S: torch.Tensor, position_S: torch.Tensor, columns: int) -> torch.Tensor:
    """[S, columns] float64 Gumbel noise of the server scheme.

    Args:
        seed_S, position_S: int64 talker seeds and draw positions (8 x step + codebook).
    """
    column_SV = torch.arange(columns, device=seed_S.device).expand(len(seed_S), columns)
    seed, position = seed_S[:, None], position_S[:, None]
    hashed = murmur3((seed & _MASK32, (seed >> 32) & _MASK32, position, column_SV), column_SV)
    log_u = torch.log(hashed.double() / (2.0**32 - 1))
    log_u = log_u.clamp(torch.finfo(torch.float64).min, _LARGEST_NEGATIVE_LOG)
    return -torch.log(-log_u)


class SongRandomness(Protocol):
    """All random numbers of one song."""

    scheme: str
    noise_waits: bool
    """Whether noise may be asked for only when the talker is done with the song."""

    def noise_state(self) -> bytes | None:
        """What the noise depends on besides its seed: the generator's state now, behind the talker's draws; None where
        there is nothing.
        """
        ...

    def noise(self, window: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
        """float32 normal noise of one window; windows are asked for in order."""
        ...


class ServerRandomness:
    """The server scheme of one song."""

    scheme = "server"
    noise_waits = False

    def __init__(self, seed: int, noise_seed: int | None = None) -> None:
        self.noise_seed = seed if noise_seed is None else noise_seed
        self.talker_seed = talker_seed(seed)

    def noise_state(self) -> bytes | None:
        return None

    def noise(self, window: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
        generator = torch.Generator(device).manual_seed(window_seed(self.noise_seed, window))
        return torch.randn(shape, generator=generator, device=device)


class ReferenceRandomness:
    """The reference scheme of one song. The generator is a CPU one, so that every device gives the same numbers."""

    scheme = "diffusers"
    noise_waits = True

    def __init__(self, seed: int, vocabulary: int, noise_seed: int | None = None) -> None:
        self.generator = _generator(seed)
        # With a seed of its own the noise no longer depends on how many draws the talker made.
        self.noise_generator = self.generator if noise_seed is None else _generator(noise_seed)
        self.vocabulary = vocabulary

    def draw(self, probabilities_1V: torch.Tensor, codebook: int) -> int:
        """One column; of codebook 0, column 0 is the end of the song and column 1 + j is code j."""
        if codebook:
            return int(torch.multinomial(probabilities_1V, 1, generator=self.generator))
        # The reference draws among the whole vocabulary: one random number a token, so the slice must be put back.
        full = torch.zeros(1, self.vocabulary)
        full[:, AUDIO_END] = probabilities_1V[:, 0]
        full[:, AUDIO_CODE_OFFSET : AUDIO_CODE_OFFSET + probabilities_1V.shape[1] - 1] = probabilities_1V[:, 1:]
        token = int(torch.multinomial(full, 1, generator=self.generator))
        return 0 if token == AUDIO_END else token - AUDIO_CODE_OFFSET + 1

    def noise_state(self) -> bytes | None:
        return bytes(self.noise_generator.get_state().tolist())

    def noise(self, window: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
        return torch.randn(shape, generator=self.noise_generator).to(device)


def _generator(seed: int) -> torch.Generator:
    # torch seeds are 64-bit patterns; negative ones are how it spells the upper half.
    return torch.Generator().manual_seed(seed if seed < 2**63 else seed - 2**64)


class ForcedRandomness:
    """A song whose codes are known: its draws are those, its noise is its scheme's.

    Args:
        steps: 8 codes of every step, the unemitted first one included.
        noise_from: the scheme's own randomness.
        noise_state: where the scheme needs one, and no noise seed of its own was given.
    """

    scheme = "codes"

    def __init__(
        self, steps: Sequence[Sequence[int]], noise_from: SongRandomness, noise_state: bytes | None = None
    ) -> None:
        self.steps, self._noise_from = steps, noise_from
        self.noise_waits = noise_from.noise_waits
        if noise_state is not None and isinstance(noise_from, ReferenceRandomness):
            noise_from.noise_generator.set_state(torch.tensor(list(noise_state), dtype=torch.uint8))

    def noise_state(self) -> bytes | None:
        return self._noise_from.noise_state()

    def noise(self, window: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
        return self._noise_from.noise(window, shape, device)


def dither_words(seed: int) -> Callable[[int], np.ndarray]:
    """Random 64-bit words for the dither of a song's file: Philox, keyed by the seed; its raw words are the same with
    every numpy.

    Returns:
        a function that gives the next n words as uint64.
    """
    digest = hashlib.blake2b(f"music3-dither:{seed}".encode(), digest_size=16).digest()
    words: Callable[[int], np.ndarray] = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw
    return words


def song_randomness(scheme: str, seed: int, vocabulary: int, noise_seed: int | None = None) -> SongRandomness:
    """The random numbers of a song under `scheme`.

    Args:
        vocabulary: the backbone's.
        noise_seed: another seed for the windows' noise alone.
    """
    if scheme == "server":
        return ServerRandomness(seed, noise_seed)
    return ReferenceRandomness(seed, vocabulary, noise_seed)
