"""One song on its way through the talker: what it is made of, what is known of it so far, and its frames' hiddens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from music3_cli.randomness import SongRandomness
from music3_cli.song.codes import SongCodes

CHUNK_FRAMES = 100
"""Frames that leave a slot together."""


@dataclass(frozen=True)
class Hiddens:
    """Consecutive frames' hiddens, in a memory of their own.

    Attributes:
        frames_FCH: [F, 8, H], on the talker's device or on the host.
        ready: behind the copy, where the device is still at it.
    """

    frames_FCH: torch.Tensor
    ready: torch.cuda.Event | None = None

    def wait(self) -> torch.Tensor:
        """[F, 8 x H] once they are there; the host waits, so any stream of any device may read them."""
        if self.ready is not None:
            self.ready.synchronize()
        return self.frames_FCH.flatten(1)


@dataclass
class TalkerSong:
    """One song.

    Attributes:
        id: for events.
        ids, unconditional_ids: [T] the prompt's two rows.
        max_frames: the ceiling.
        known: its codes, where they are known: nothing is drawn, and the song needs no slot: its hiddens come from one
            pass (talker/forcing.py).
        exact: known codes go through the steps all the same.
        frames: emitted so far.
        finish_reason: empty while it runs, then `end`, `ceiling`, or `broken`: its hiddens were not finite.
        seconds: the talker's time from the song's prefill to its last frame, the other songs' included.
        dropped: set by whoever no longer wants the song; it then leaves its slot before the next frame.
        handed: frames whose hiddens were handed over.
    """

    id: str
    ids: Sequence[int]
    unconditional_ids: Sequence[int]
    max_frames: int
    randomness: SongRandomness
    known: SongCodes | None = None
    exact: bool = False
    frames: int = 0
    finish_reason: str = ""
    seconds: float = 0.0
    dropped: bool = False
    handed: int = 0
    _hiddens: list[Hiddens] = field(default_factory=list, repr=False)
    _priming_C: torch.Tensor | None = field(default=None, repr=False)
    _codes_FC: torch.Tensor | None = field(default=None, repr=False)

    @property
    def positions(self) -> int:
        """Positions that the cache must hold: the prompt, the unemitted first step and all frames but the last."""
        return len(self.ids) + self.max_frames + 1

    @property
    def codes(self) -> list[list[int]]:
        """8 codes for every frame of a finished song."""
        assert self._codes_FC is not None
        return self._codes_FC.tolist()

    @property
    def priming(self) -> list[int]:
        """The 8 codes of the first step, which is not emitted."""
        assert self._priming_C is not None
        return self._priming_C.tolist()

    def hand_over(self, hiddens: Hiddens) -> None:
        """The next frames' hiddens."""
        self._hiddens.append(hiddens)
        self.handed += len(hiddens.frames_FCH)

    def finish(self, reason: str, priming_C: torch.Tensor, codes_FC: torch.Tensor) -> None:
        """[8] and [F, 8] codes of a song whose last hiddens have been handed over."""
        self.finish_reason, self.frames = reason, len(codes_FC)
        self._priming_C, self._codes_FC = priming_C, codes_FC

    def take_hiddens(self) -> list[Hiddens]:
        """What was handed over since the last call; the song forgets it."""
        taken, self._hiddens = self._hiddens, []
        return taken

    def frame_hiddens(self) -> torch.Tensor:
        """[F, 8 x H] of a finished song of which nothing was taken."""
        assert self._codes_FC is not None and self.handed == len(self._codes_FC)
        return torch.cat([hiddens.wait() for hiddens in self._hiddens])
