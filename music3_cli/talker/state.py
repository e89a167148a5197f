"""What the talker knows about the songs in its slots, as device tensors that a step reads and writes in place."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from music3_cli.kernels.keep import RUNNING
from music3_cli.models.backbone import KVCache
from music3_cli.models.talker import Talker
from music3_cli.talker.song import CHUNK_FRAMES

ROWS_A_SONG = 2
"""Conditional and unconditional."""

RING = 2 * CHUNK_FRAMES
"""Frames whose hiddens a slot holds: while a chunk is taken the next one grows."""


@dataclass
class Slots:
    """S songs of two rows each; row 2s is song s's conditional row, row 2s + 1 its unconditional one.

    Attributes:
        hidden_RH: the backbone's last hiddens.
        cache, tables: keys and values of all rows, rotary tables of all positions.
        position_S: where the next input goes.
        step_S: steps done, counted from the unemitted first.
        frames_S, limit_S: frames emitted, and the most that may be.
        alive_S: bool, whether the slot has a song that is not finished.
        outcome_S: RUNNING, ENDED or AT_CEILING.
        seed_S: talker seeds of the server scheme.
        priming_SC: codes of the unemitted first step.
        codes_SFC: every emitted frame; one place behind the last takes what is not emitted.
        hiddens_SFCH: the last RING emitted frames, frame f at f modulo RING; one place more as above.
    """

    hidden_RH: torch.Tensor
    cache: KVCache
    tables: tuple[torch.Tensor, torch.Tensor]
    position_S: torch.Tensor
    step_S: torch.Tensor
    frames_S: torch.Tensor
    limit_S: torch.Tensor
    alive_S: torch.Tensor
    outcome_S: torch.Tensor
    seed_S: torch.Tensor
    priming_SC: torch.Tensor
    codes_SFC: torch.Tensor
    hiddens_SFCH: torch.Tensor

    @classmethod
    def empty(cls, talker: Talker, slots: int, positions: int, frames: int) -> Slots:
        """Idle slots with room for songs of at most `positions` of context and `frames`."""
        head, books = talker.head, talker.depth.config.num_codebooks

        def numbers(value: int = 0) -> torch.Tensor:
            return torch.full((slots,), value, device=head.device)

        return cls(
            head.new_zeros(2 * slots, head.shape[1]),
            KVCache.empty(talker.backbone.config, positions, head, 2 * slots),
            talker.backbone.phases(positions),
            numbers(),
            numbers(),
            numbers(),
            numbers(1),
            torch.zeros(slots, dtype=torch.bool, device=head.device),
            numbers(),
            numbers(),
            torch.zeros(slots, books, dtype=torch.int32, device=head.device),
            torch.zeros(slots, frames + 1, books, dtype=torch.int32, device=head.device),
            head.new_empty(slots, RING + 1, books, head.shape[1]),
        )

    @property
    def count(self) -> int:
        return len(self.position_S)

    def first(self, slots: int) -> Slots:
        """A view of the first slots."""
        shared = ("hidden_RH", "cache", "tables")
        per_slot = {field.name: getattr(self, field.name)[:slots] for field in fields(self) if field.name not in shared}
        return Slots(self.hidden_RH[: 2 * slots], self.cache.rows(0, 2 * slots), self.tables, **per_slot)

    def admit(self, slot: int, hidden_RH: torch.Tensor, position: int, limit: int, seed: int) -> None:
        """Put a song whose prompt has been run into a slot."""
        self.hidden_RH[2 * slot : 2 * slot + 2] = hidden_RH
        for tensor, value in (
            (self.position_S, position),
            (self.step_S, 0),
            (self.frames_S, 0),
            (self.limit_S, limit),
            (self.outcome_S, RUNNING),
            (self.seed_S, seed),
            (self.alive_S, True),
        ):
            tensor[slot].fill_(value)

    def clear(self) -> None:
        """Make every slot idle."""
        for tensor in (self.position_S, self.step_S, self.frames_S, self.outcome_S, self.alive_S):
            tensor.zero_()
