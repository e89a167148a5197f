"""The vocoder: latents to stereo sound, each audio channel on its own with the same weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from music3_cli.checkpoint.layout import VocoderConfig
from music3_cli.models.backbone import weight

DILATIONS = (1, 3, 9)


def snake(x: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """x + sin^2(alpha x) / (alpha + 1e-9), alpha [1, C, 1] (Ziyin et al. 2020)."""
    return x + (alpha + 1e-9).reciprocal() * torch.sin(alpha * x).square()


class Conv(nn.Module):
    """A convolution with folded weight norm; odd kernel, length kept."""

    def __init__(self, rows: int, columns: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.weight, self.bias = weight(rows, columns, kernel), weight(rows)
        self.dilation, self.padding = dilation, (kernel - 1) * dilation // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x, self.weight, self.bias, padding=self.padding, dilation=self.dilation)


class ResidualUnit(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.alpha1, self.alpha2 = weight(1, channels, 1), weight(1, channels, 1)
        self.conv1, self.conv2 = Conv(channels, channels, 7, dilation), Conv(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv2(snake(self.conv1(snake(x, self.alpha1)), self.alpha2))


class VocoderBlock(nn.Module):
    """Upsample by `stride`, then three residual units."""

    def __init__(self, wide: int, narrow: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.alpha = weight(1, wide, 1)
        self.weight, self.bias = weight(wide, narrow, 2 * stride), weight(narrow)
        self.units: Sequence[ResidualUnit] = nn.ModuleList(  # type: ignore[assignment]
            ResidualUnit(narrow, dilation) for dilation in DILATIONS
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.conv_transpose1d(
            snake(x, self.alpha), self.weight, self.bias, stride=self.stride, padding=math.ceil(self.stride / 2)
        )
        for unit in self.units:
            x = unit(x)
        return x


class Vocoder(nn.Module):
    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        self.dec_in_proj = Conv(config.decoder_input_dim, config.latent_channels // 2, 1)
        self.conv_in = Conv(config.decoder_hidden_dim, config.decoder_input_dim, 7)
        self.blocks: Sequence[VocoderBlock] = nn.ModuleList(  # type: ignore[assignment]
            VocoderBlock(config.channels(i), config.channels(i + 1), stride)
            for i, stride in enumerate(config.upsampling_ratios)
        )
        last = config.channels(len(config.upsampling_ratios))
        self.alpha_out = weight(1, last, 1)
        self.conv_out = Conv(1, last, 7)

    def forward(self, latents_CL: torch.Tensor) -> torch.Tensor:
        """[C, L] latents to [2, hop x L] samples in [-1, 1]; the first half of the channels is left."""
        x = self.conv_in(self.dec_in_proj(latents_CL.unflatten(0, (2, -1))))
        for block in self.blocks:
            x = block(x)
        return torch.tanh(self.conv_out(snake(x, self.alpha_out)))[:, 0]
