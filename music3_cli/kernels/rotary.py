"""Rotary phases."""

from __future__ import annotations

import torch


def rotary_tables(positions_T: torch.Tensor, dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """[T, dim] cosines and sines in float32, both halves alike (rotate-half convention)."""
    exponent = torch.arange(0, dim, 2, device=positions_T.device, dtype=torch.float32) / dim
    phase = positions_T.float()[:, None] / theta**exponent
    phase = torch.cat((phase, phase), -1)
    return phase.cos(), phase.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Apply rotary phases over the last dimension; tables are in x's dtype and broadcast against x."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
