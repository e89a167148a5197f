"""Runs a song's windows through condition encoder, flow solver and vocoder, and joins what comes out."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import torch

from music3_cli.acoustic.flow import (
    GUIDANCE,
    Carry,
    end_on_carry,
    euler_step,
    hold_overlap,
    next_carry,
    schedule,
    take_over_condition,
)
from music3_cli.acoustic.windows import Window, plan_windows
from music3_cli.models.condition import ConditionEncoder
from music3_cli.models.transformer import FlowTransformer
from music3_cli.models.vocoder import Vocoder
from music3_cli.randomness import SongRandomness


@dataclass(frozen=True)
class Solved:
    """`steps` Euler steps of a window are done."""

    window: Window
    steps: int


@dataclass(frozen=True)
class Sound:
    """A window's kept span, [2, samples] float32 in [-1, 1] on the host; concatenated, the spans are the song."""

    window: Window
    samples_CS: torch.Tensor


class AcousticEngine:
    """The three acoustic networks on one device. Callers run it inside `devices.true_fp32`."""

    def __init__(self, condition: ConditionEncoder, transformer: FlowTransformer, vocoder: Vocoder) -> None:
        self.condition, self.transformer, self.vocoder = condition, transformer, vocoder
        self.device = transformer.proj_in.device

    def windows(self, frames: int) -> list[Window]:
        return plan_windows(frames, self.condition.config)

    @torch.inference_mode()
    def run(
        self, hiddens_FD: torch.Tensor, randomness: SongRandomness, steps: int, guidance: float = GUIDANCE
    ) -> Iterator[Solved | Sound]:
        """A song's sound from all its frame hiddens [F, 8 x H], in window order."""
        pieces = ((window, hiddens_FD[window.start : window.stop]) for window in self.windows(len(hiddens_FD)))
        yield from self.run_windows(pieces, randomness, steps, guidance)

    @torch.inference_mode()
    def run_windows(
        self,
        pieces: Iterable[tuple[Window, torch.Tensor]],
        randomness: SongRandomness,
        steps: int,
        guidance: float = GUIDANCE,
    ) -> Generator[Solved | Sound]:
        """A song's sound from its windows in order, each with its frames' hiddens [frames, 8 x H] on any device. The
        next window is asked for when the sound of the last has been taken.
        """
        carry: Carry | None = None
        for window, hiddens_FD in pieces:
            frames_FD = hiddens_FD.to(self.device, self.condition.proj_weight.dtype)
            carry = carry.fit(window.latents) if carry else None
            condition_LC = take_over_condition(self.condition(frames_FD).float(), carry)
            shape = (1, self.transformer.config.in_channels, window.latents)
            noise_LC = randomness.noise(window.index, shape, self.device)[0].T.contiguous()
            x_LC, times = noise_LC, schedule(steps)
            for step in range(steps):
                if carry:
                    x_LC = hold_overlap(x_LC, noise_LC, carry, times[step])
                x_LC = euler_step(self.transformer, x_LC, condition_LC, times[step], times[step + 1], guidance)
                yield Solved(window, step + 1)
            if carry:
                x_LC = end_on_carry(x_LC, carry)
            carry = next_carry(x_LC, condition_LC)
            yield Sound(window, self._decode(x_LC, window))

    def _decode(self, latents_LC: torch.Tensor, window: Window) -> torch.Tensor:
        hop = self.condition.config.output_hop_length
        sound_CS = self.vocoder(latents_LC.T)
        return sound_CS[:, window.keep_start * hop : window.keep_stop * hop].clamp(-1, 1).cpu()
