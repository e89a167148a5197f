"""The flow solver's parts: schedule, guided Euler step, and how a window is held to its predecessor (spec, 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from music3_cli.acoustic.windows import OVERLAP_LATENTS
from music3_cli.models.transformer import FlowTransformer

GUIDANCE = 1.7
SIGMA_MIN = 1e-6


@dataclass(frozen=True)
class Carry:
    """What a window hands to its successor, which begins with it: latents and condition over the same stretch.

    Both are [o, channels] with o at most 172.
    """

    latents_OC: torch.Tensor
    condition_OC: torch.Tensor

    def fit(self, latents: int) -> Carry:
        """The part that fits into a window of `latents`."""
        return Carry(self.latents_OC[:latents], self.condition_OC[:latents])


def schedule(steps: int) -> list[float]:
    """Times 0 = t_0 < ... < t_steps = 1, evenly spaced; 0 is noise."""
    return [i / steps for i in range(steps + 1)]


def take_over_condition(condition_LC: torch.Tensor, carry: Carry | None) -> torch.Tensor:
    """The window's condition with its beginning replaced by the carried one."""
    if carry is None:
        return condition_LC
    return torch.cat((carry.condition_OC, condition_LC[len(carry.condition_OC) :]))


def hold_overlap(x_LC: torch.Tensor, noise_LC: torch.Tensor, carry: Carry, time: float) -> torch.Tensor:
    """x with its overlap put on the straight path from noise to the carried latents, at `time`."""
    overlap = len(carry.latents_OC)
    held_OC = (1 - (1 - SIGMA_MIN) * time) * noise_LC[:overlap] + time * carry.latents_OC
    return torch.cat((held_OC, x_LC[overlap:]))


def euler_step(
    transformer: FlowTransformer,
    x_LC: torch.Tensor,
    condition_LC: torch.Tensor,
    time: float,
    following: float,
    guidance: float = GUIDANCE,
) -> torch.Tensor:
    """One step from `time` to `following` along the guided velocity; both guidance rows go in one forward, and the
    unconditional row's condition is zero.
    """
    rows = torch.stack((condition_LC, torch.zeros_like(condition_LC)))
    now = torch.tensor(time, device=x_LC.device)
    conditional_LC, unconditional_LC = transformer(x_LC.expand(2, -1, -1), now, rows)
    return x_LC + (following - time) * (unconditional_LC + guidance * (conditional_LC - unconditional_LC))


def end_on_carry(x_LC: torch.Tensor, carry: Carry) -> torch.Tensor:
    """x with exactly the carried latents as its overlap."""
    return torch.cat((carry.latents_OC, x_LC[len(carry.latents_OC) :]))


def next_carry(latents_LC: torch.Tensor, condition_LC: torch.Tensor) -> Carry:
    """The stretch [L - 344, L - 172) of a solved window."""
    stop = max(0, len(latents_LC) - OVERLAP_LATENTS)
    start = max(0, stop - OVERLAP_LATENTS)
    return Carry(latents_LC[start:stop], condition_LC[start:stop])
