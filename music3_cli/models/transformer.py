"""The flow-matching transformer: velocity of noisy latents under a condition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from music3_cli.checkpoint.layout import TransformerConfig
from music3_cli.kernels.rotary import rotary_tables, rotate
from music3_cli.models.backbone import weight

ROTARY_THETA = 10000.0
NORM_EPS = 1e-5


class TransformerBlock(nn.Module):
    """Pre-LayerNorm block: bidirectional attention with partly rotated heads, then a gated MLP (value, then gate)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        inner = config.inner_dim
        self.head_dim, self.rotary_dim = config.attention_head_dim, config.rotary_dim
        self.norm1_weight, self.norm1_bias = weight(inner), weight(inner)
        self.norm2_weight, self.norm2_bias = weight(inner), weight(inner)
        self.qkv = weight(3 * inner, inner)
        self.out = weight(inner, inner)
        self.ff_in, self.ff_in_bias = weight(2 * config.ff_inner_dim, inner), weight(2 * config.ff_inner_dim)
        self.ff_out, self.ff_out_bias = weight(inner, config.ff_inner_dim), weight(inner)

    def forward(self, x_BTC: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        inner = x_BTC.shape[-1:]
        qkv = F.linear(F.layer_norm(x_BTC, inner, self.norm1_weight, self.norm1_bias, NORM_EPS), self.qkv)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in qkv.chunk(3, -1))
        attended = F.scaled_dot_product_attention(self._rotate(q, cos, sin), self._rotate(k, cos, sin), v)
        x_BTC = x_BTC + F.linear(attended.transpose(1, 2).flatten(2), self.out)
        normed = F.layer_norm(x_BTC, inner, self.norm2_weight, self.norm2_bias, NORM_EPS)
        value, gate = F.linear(normed, self.ff_in, self.ff_in_bias).chunk(2, -1)
        return x_BTC + F.linear(value * F.silu(gate), self.ff_out, self.ff_out_bias)

    def _rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        rotated, rest = x.split((self.rotary_dim, x.shape[-1] - self.rotary_dim), -1)
        return torch.cat((rotate(rotated, cos, sin), rest), -1)


class FlowTransformer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        inner, joined, channels = config.inner_dim, config.joined_channels, config.in_channels
        self.time_proj = weight(config.fourier_embedding_dim // 2)
        self.time1, self.time1_bias = weight(inner, config.fourier_embedding_dim), weight(inner)
        self.time2, self.time2_bias = weight(inner, inner), weight(inner)
        self.preprocess = weight(joined, joined)
        self.proj_in = weight(inner, joined)
        self.blocks: Sequence[TransformerBlock] = nn.ModuleList(  # type: ignore[assignment]
            TransformerBlock(config) for _ in range(config.num_layers)
        )
        self.proj_out = weight(channels, inner)
        self.postprocess = weight(channels, channels)

    def forward(self, latents_BLC: torch.Tensor, time: torch.Tensor, condition_BLC: torch.Tensor) -> torch.Tensor:
        """Velocity.

        Args:
            latents_BLC: noisy latents, channels last.
            time: scalar in [0, 1], 0 is noise.
            condition_BLC: zeros for the unconditional row.

        Returns:
            [B, L, C].
        """
        x = torch.cat((latents_BLC, torch.zeros_like(latents_BLC), condition_BLC), -1)
        x = F.linear(F.linear(x, self.preprocess) + x, self.proj_in)
        # The time is one more token in front, dropped behind the blocks.
        token = self._time_token(time).expand(len(x), 1, -1)
        x = torch.cat((token, x), 1)
        cos, sin = rotary_tables(torch.arange(x.shape[1], device=x.device), self.config.rotary_dim, ROTARY_THETA)
        for block in self.blocks:
            x = block(x, cos, sin)
        velocity = F.linear(x[:, 1:], self.proj_out)
        return F.linear(velocity, self.postprocess) + velocity

    def _time_token(self, time: torch.Tensor) -> torch.Tensor:
        phase = 2 * math.pi * time * self.time_proj
        features = torch.cat((phase.cos(), phase.sin()))
        return F.linear(F.silu(F.linear(features, self.time1, self.time1_bias)), self.time2, self.time2_bias)
