"""A matrix in 8 bits: whole numbers from -127 to 127 and one float32 scale for every output."""

from __future__ import annotations

import torch
from torch import nn


class Int8Matrix(nn.Module):
    """[N, K] as `values * scale`, symmetric: an output's scale is its largest absolute weight / 127.

    A row of zeros has the scale 0.
    """

    def __init__(self, outputs: int, inner: int) -> None:
        super().__init__()
        self.values_NK = nn.Parameter(torch.empty(outputs, inner, dtype=torch.int8), requires_grad=False)
        self.scale_N = nn.Parameter(torch.empty(outputs, dtype=torch.float32), requires_grad=False)

    def __len__(self) -> int:
        return len(self.values_NK)

    def set_rows(self, start: int, weight_NK: torch.Tensor) -> None:
        """Quantize rows from `start` on."""
        weight_NK = weight_NK.float()
        scale_N = weight_NK.abs().amax(1) / 127
        rows = slice(start, start + len(weight_NK))
        self.scale_N[rows] = scale_N
        self.values_NK[rows] = (weight_NK / scale_N.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).round()

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        """[N, K] in `dtype`, each element rounded once."""
        out = torch.empty(self.values_NK.shape, dtype=dtype, device=self.values_NK.device)
        return torch.mul(self.values_NK, self.scale_N[:, None], out=out)


Matrix = torch.Tensor | Int8Matrix
"""A weight that a product reads."""


def dense(weight: Matrix, dtype: torch.dtype) -> torch.Tensor:
    """The weight as one tensor."""
    return weight.dense(dtype) if isinstance(weight, Int8Matrix) else weight
