"""The vocoder: latents to stereo sound, each audio channel on its own with the same weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from music3_cli.checkpoint.layout import VocoderConfig
from music3_cli.kernels.snake import snake, sum_and_snake
from music3_cli.models.backbone import weight

KERNEL = 7
DILATIONS = (1, 3, 9)


class Conv(nn.Module):
    """A convolution with folded weight norm; odd kernel, length kept. Its bias is for whoever takes the product."""

    def __init__(self, rows: int, columns: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.weight, self.bias = weight(rows, columns, kernel), weight(rows)
        self.dilation, self.padding = dilation, (kernel - 1) * dilation // 2

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return F.conv1d(x, self.weight, bias, padding=self.padding, dilation=self.dilation)


class ResidualUnit(nn.Module):
    """x + conv2(snake(conv1(snake(x)))). The outer snake and the sum are computed where the neighbouring convolutions'
    products are read, see `Vocoder.forward`.
    """

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.alpha1, self.alpha2 = weight(1, channels, 1), weight(1, channels, 1)
        self.conv1, self.conv2 = Conv(channels, channels, KERNEL, dilation), Conv(channels, channels, 1)

    def forward(self, activated: torch.Tensor) -> torch.Tensor:
        """conv2's product, without its bias, of snake(x)."""
        return self.conv2(snake(self.conv1(activated), self.conv1.bias, self.alpha2.flatten()))


class VocoderBlock(nn.Module):
    """Upsample by `stride`, then three residual units."""

    def __init__(self, wide: int, narrow: int, stride: int) -> None:
        super().__init__()
        self.stride, self.padding = stride, math.ceil(stride / 2)
        self.alpha = weight(1, wide, 1)
        self.weight, self.bias = weight(wide, narrow, 2 * stride), weight(narrow)
        self.units: Sequence[ResidualUnit] = nn.ModuleList(  # type: ignore[assignment]
            ResidualUnit(narrow, dilation) for dilation in DILATIONS
        )

    def forward(self, activated: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """The block's output through the next snake, of its input through its own.

        Args:
            following: the next snake's alpha.
        """
        product = F.conv_transpose1d(activated, self.weight, stride=self.stride, padding=self.padding)
        first, *rest = self.units
        x, activated = sum_and_snake(product, self.bias, first.alpha1.flatten())
        for unit, after in zip(self.units, rest, strict=False):
            x, activated = sum_and_snake(unit(activated), unit.conv2.bias, after.alpha1.flatten(), x)
        last = self.units[-1]
        return snake(last(activated), last.conv2.bias, following.flatten(), x)


class Vocoder(nn.Module):
    def __init__(self, config: VocoderConfig) -> None:
        super().__init__()
        self.config = config
        self.dec_in_proj = Conv(config.decoder_input_dim, config.latent_channels // 2, 1)
        self.conv_in = Conv(config.decoder_hidden_dim, config.decoder_input_dim, KERNEL)
        self.blocks: Sequence[VocoderBlock] = nn.ModuleList(  # type: ignore[assignment]
            VocoderBlock(config.channels(i), config.channels(i + 1), stride)
            for i, stride in enumerate(config.upsampling_ratios)
        )
        last = config.channels(len(config.upsampling_ratios))
        self.alpha_out = weight(1, last, 1)
        self.conv_out = Conv(1, last, KERNEL)

    def forward(self, latents_CL: torch.Tensor) -> torch.Tensor:
        """[C, L] latents to [2, hop x L] samples in [-1, 1]; the first half of the channels is left."""
        x = self.dec_in_proj(latents_CL.unflatten(0, (2, -1)), self.dec_in_proj.bias)
        x = snake(self.conv_in(x), self.conv_in.bias, self.blocks[0].alpha.flatten())
        following = [*(block.alpha for block in self.blocks[1:]), self.alpha_out]
        for block, alpha in zip(self.blocks, following, strict=True):
            x = block(x, alpha)
        return torch.tanh(self.conv_out(x, self.conv_out.bias))[:, 0]

    def decode(self, latents_CL: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        """The samples of latents [start, stop), [2, hop x (stop - start)]: those of `forward`, decoded from no more
        latents than they depend on.
        """
        first, last = self.needed(start, stop, latents_CL.shape[1])
        hop = math.prod(self.config.upsampling_ratios)
        return self(latents_CL[:, first:last])[:, (start - first) * hop : (stop - first) * hop]

    def needed(self, start: int, stop: int, length: int) -> tuple[int, int]:
        """[first, last) of `length` latents, on which the samples of latents [start, stop) depend.

        Exact, by following every convolution backwards: one of kernel k and dilation d reads d (k - 1) / 2 elements on
        both sides, a transposed one of kernel 2 s, stride s and padding p makes element o of elements (o + p - 2 s + 1)
        / s to (o + p) / s.
        """
        hop, reach = math.prod(self.config.upsampling_ratios), KERNEL // 2
        first, last = start * hop - reach, stop * hop - 1 + reach
        for stride in reversed(self.config.upsampling_ratios):
            padding = math.ceil(stride / 2)
            first, last = first - reach * sum(DILATIONS), last + reach * sum(DILATIONS)
            first, last = -((2 * stride - 1 - padding - first) // stride), (last + padding) // stride
        return max(0, first - reach), min(length, last + reach + 1)
