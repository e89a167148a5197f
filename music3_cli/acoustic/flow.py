"""The flow solver's parts: schedule, guided Euler step, and how a window is held to its predecessor (spec, 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from music3_cli.acoustic.windows import OVERLAP_LATENTS
from music3_cli.models.transformer import BlockDtypes, FlowTransformer

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


def schedule(steps: int, shift: float = 1.0) -> list[float]:
    """Times 0 = t_0 < ... < t_steps = 1; 0 is noise. Evenly spaced with shift 1; a greater one makes the first steps
    smaller and the last ones larger (spec section 4; Esser et al. 2024, equation 23, in terms of 1 - t).
    """
    return [i / (steps + (shift - 1) * (steps - i)) for i in range(steps + 1)]


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


def guided_velocity(
    transformer: FlowTransformer,
    x_LC: torch.Tensor,
    token_C: torch.Tensor,
    bases_2LC: torch.Tensor,
    guidance: float,
    dtypes: BlockDtypes,
) -> torch.Tensor:
    """The guided velocity, [L, C]; both guidance rows go in one forward.

    Args:
        token_C: the time's, see `FlowTransformer.time_token`.
        bases_2LC: see `guidance_bases`.
    """
    conditional_LC, unconditional_LC = transformer(x_LC, token_C, bases_2LC, dtypes)
    return unconditional_LC + guidance * (conditional_LC - unconditional_LC)


def guidance_bases(transformer: FlowTransformer, condition_LC: torch.Tensor) -> torch.Tensor:
    """[2, L, inner]: what the condition brings into every step, and zeros for the unconditional row."""
    base_LC = transformer.base(condition_LC)
    return torch.stack((base_LC, torch.zeros_like(base_LC)))


def end_on_carry(x_LC: torch.Tensor, carry: Carry) -> torch.Tensor:
    """x with exactly the carried latents as its overlap."""
    return torch.cat((carry.latents_OC, x_LC[len(carry.latents_OC) :]))


def next_carry(latents_LC: torch.Tensor, condition_LC: torch.Tensor) -> Carry:
    """The stretch [L - 344, L - 172) of a solved window."""
    stop = max(0, len(latents_LC) - OVERLAP_LATENTS)
    start = max(0, stop - OVERLAP_LATENTS)
    return Carry(latents_LC[start:stop], condition_LC[start:stop])
