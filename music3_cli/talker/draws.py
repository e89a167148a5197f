"""Drawing one column a song from the head's logits, under either random scheme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from music3_cli.kernels.draw import draw_columns
from music3_cli.kernels.linear import sum_parts
from music3_cli.kernels.triton_support import use_kernel
from music3_cli.randomness import DRAWS_A_FRAME, ForcedRandomness, ReferenceRandomness, SongRandomness, gumbel
from music3_cli.talker.sampling import GUIDANCE, TOP_K, residual_candidates, semantic_candidates
from music3_cli.talker.state import Slots


class Draws(Protocol):
    """The draws of the songs in the slots. Logits come as partial sums [parts, R, V]."""

    repeatable: bool
    """Whether a CUDA graph can hold the draws."""

    def semantic(self, parts_PRV: torch.Tensor, slots: Slots) -> torch.Tensor:
        """[S] int64 columns of the semantic code; 0 ends the song."""
        ...

    def residual(self, parts_PRV: torch.Tensor, slots: Slots, codebook: int) -> torch.Tensor:
        """[S] int64 codes of a residual codebook, in the frame that the last `semantic` began."""
        ...


class ServerDraws:
    """Gumbel-argmax with noise hashed from (seed, position, column); nothing but device tensors."""

    repeatable = True

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def semantic(self, parts_PRV: torch.Tensor, slots: Slots) -> torch.Tensor:
        return self._draw(parts_PRV, slots, 0)

    def residual(self, parts_PRV: torch.Tensor, slots: Slots, codebook: int) -> torch.Tensor:
        return self._draw(parts_PRV, slots, codebook)

    def _draw(self, parts_PRV: torch.Tensor, slots: Slots, codebook: int) -> torch.Tensor:
        if use_kernel(parts_PRV):
            return draw_columns(
                parts_PRV,
                self.dtype,
                slots.seed_S,
                slots.step_S,
                DRAWS_A_FRAME,
                codebook,
                GUIDANCE,
                TOP_K,
                conditional_mask=codebook == 0,
            )
        position_S = slots.step_S * DRAWS_A_FRAME + codebook
        candidates = residual_candidates if codebook else semantic_candidates
        logits_SV = candidates(sum_parts(parts_PRV, self.dtype))
        return (logits_SV.double() + gumbel(slots.seed_S, position_S, logits_SV.shape[1])).argmax(-1)


class ReferenceDraws:
    """`torch.multinomial` on each song's own generator, in the reference's order. Draws on the host."""

    repeatable = False

    def __init__(self, dtype: torch.dtype, songs: Sequence[SongRandomness | None]) -> None:
        self.dtype, self.songs = dtype, songs
        self.drawing: list[bool] = []

    def semantic(self, parts_PRV: torch.Tensor, slots: Slots) -> torch.Tensor:
        self.drawing = slots.alive_S.tolist()
        column_S = self._draw(semantic_candidates(sum_parts(parts_PRV, self.dtype)), 0)
        # A song that draws its end draws nothing more.
        self.drawing = [going and column != 0 for going, column in zip(self.drawing, column_S.tolist(), strict=True)]
        return column_S

    def residual(self, parts_PRV: torch.Tensor, slots: Slots, codebook: int) -> torch.Tensor:
        return self._draw(residual_candidates(sum_parts(parts_PRV, self.dtype)), codebook)

    def _draw(self, logits_SV: torch.Tensor, codebook: int) -> torch.Tensor:
        probabilities_SV = torch.softmax(logits_SV, -1).nan_to_num(1.0).cpu()  # `keep_frame` ends songs without numbers
        columns = [
            song.draw(probabilities_SV[slot : slot + 1], codebook)
            if isinstance(song, ReferenceRandomness) and draws
            else 0
            for slot, (song, draws) in enumerate(zip(self.songs, self.drawing, strict=False))
        ]
        return torch.tensor(columns, device=logits_SV.device)


class ForcedDraws:
    """No draws: the songs' known codes, whatever the logits say. Behind the last known step a song ends."""

    repeatable = False

    def __init__(self, songs: Sequence[SongRandomness | None]) -> None:
        self.songs = songs

    def semantic(self, parts_PRV: torch.Tensor, slots: Slots) -> torch.Tensor:
        return self._known(slots, 0, parts_PRV.device)

    def residual(self, parts_PRV: torch.Tensor, slots: Slots, codebook: int) -> torch.Tensor:
        return self._known(slots, codebook, parts_PRV.device)

    def _known(self, slots: Slots, codebook: int, device: torch.device) -> torch.Tensor:
        columns = [0] * slots.count
        for slot, (song, step) in enumerate(zip(self.songs, slots.step_S.tolist(), strict=False)):
            if isinstance(song, ForcedRandomness) and step < len(song.steps):
                # The semantic code's column 0 is the end of the song.
                columns[slot] = song.steps[step][codebook] + (codebook == 0)
        return torch.tensor(columns, device=device)


def make_draws(scheme: str, dtype: torch.dtype, songs: Sequence[SongRandomness | None]) -> Draws:
    """The draws of a run whose songs all have this scheme; `songs` are the slots', as they are while a step runs."""
    if scheme == "server":
        return ServerDraws(dtype)
    return ForcedDraws(songs) if scheme == "codes" else ReferenceDraws(dtype, songs)
