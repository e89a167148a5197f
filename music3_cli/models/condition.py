"""The condition encoder: a window's frame hiddens to the latent grid."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from music3_cli.checkpoint.layout import ConditionConfig
from music3_cli.models.backbone import weight


class ConditionEncoder(nn.Module):
    def __init__(self, config: ConditionConfig) -> None:
        super().__init__()
        self.config = config
        self.layer_weight_logits = weight(config.num_condition_layers)
        self.layer_scale = weight(1)
        self.proj_weight = weight(config.out_dim, config.condition_hidden_dim, 3)
        self.proj_bias = weight(config.out_dim)

    def forward(self, hiddens_FD: torch.Tensor) -> torch.Tensor:
        """[F, 8 x H] frame hiddens of one window to [L, C]: softmax mix of the eight, scale, convolution over time with
        zeros at the window's edges, nearest interpolation.
        """
        frames = len(hiddens_FD)
        mix = self.layer_weight_logits.softmax(0).to(hiddens_FD.dtype)
        mixed_FH = torch.einsum("flh,l->fh", hiddens_FD.unflatten(1, (len(mix), -1)), mix) * self.layer_scale
        condition_CF = F.conv1d(mixed_FH.T, self.proj_weight, self.proj_bias, padding=1)
        latents = self.config.latents(frames)
        return F.interpolate(condition_CF[None], size=latents, mode="nearest")[0].T
