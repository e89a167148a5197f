"""The talker's depth decoder: within a frame, from the backbone's hidden and the codes so far to the next codebook."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from music3_cli.checkpoint.layout import DepthConfig
from music3_cli.kernels.rows import decode_attention, rms_norm, silu_mul
from music3_cli.models.backbone import weight

NORM_EPS = 1e-6


class DepthLayer(nn.Module):
    def __init__(self, config: DepthConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.head_dim = config.head_dim
        self.qkv = weight(3 * hidden, hidden)
        self.out = weight(hidden, hidden)
        self.gate_up = weight(2 * config.intermediate_size, hidden)
        self.down = weight(hidden, config.intermediate_size)
        self.attention_norm = weight(hidden)
        self.mlp_norm = weight(hidden)

    def forward(self, x_RH: torch.Tensor, k_RGPD: torch.Tensor, v_RGPD: torch.Tensor, position: int) -> torch.Tensor:
        qkv = F.linear(rms_norm(x_RH, self.attention_norm, NORM_EPS), self.qkv)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)) for part in qkv.chunk(3, -1))
        k_RGPD[:, :, position], v_RGPD[:, :, position] = k, v
        attended = decode_attention(q, k_RGPD[:, :, : position + 1], v_RGPD[:, :, : position + 1])
        x_RH = x_RH + F.linear(attended.flatten(1), self.out)
        normed = rms_norm(x_RH, self.mlp_norm, NORM_EPS)
        return x_RH + F.linear(silu_mul(F.linear(normed, self.gate_up)), self.down)


class DepthDecoder(nn.Module):
    """Causal with learned positions, so keys and values of earlier positions can be kept: each position is run once."""

    def __init__(self, config: DepthConfig) -> None:
        super().__init__()
        self.config = config
        residual = config.num_codebooks - 1
        self.projection = weight(config.hidden_size, config.hidden_size)
        self.positions = weight(config.max_position_embeddings, config.hidden_size)
        self.embeddings = weight(residual * config.audio_vocab_size, config.hidden_size)
        self.layers: Sequence[DepthLayer] = nn.ModuleList(  # type: ignore[assignment]
            DepthLayer(config) for _ in range(config.num_layers)
        )
        self.norm = weight(config.hidden_size)
        self.heads = weight(residual, config.audio_vocab_size, config.hidden_size)

    def new_cache(self, rows: int) -> torch.Tensor:
        """[layers, k and v, rows, heads, positions, head dim] for one frame."""
        c = self.config
        return self.projection.new_empty(c.num_layers, 2, rows, c.num_attention_heads, c.num_codebooks, c.head_dim)

    def forward(self, x_RH: torch.Tensor, cache: torch.Tensor, position: int) -> torch.Tensor:
        """Run one position of the frame: 0 is the backbone's hidden, i the embedding of code i - 1.

        Args:
            x_RH: unprojected input.
            cache: from `new_cache`; positions before this one must have been run.

        Returns:
            [R, H] normed hidden; that of position i feeds head i (1 to 7).
        """
        x = F.linear(x_RH, self.projection) + self.positions[position]
        for layer, (k, v) in zip(self.layers, cache, strict=True):
            x = layer(x, k, v, position)
        return rms_norm(x, self.norm, NORM_EPS)

    def logits(self, hidden_RH: torch.Tensor, codebook: int) -> torch.Tensor:
        """[R, codes] logits of residual `codebook` (1 to 7)."""
        return F.linear(hidden_RH, self.heads[codebook - 1])

    def embed(self, code_S: torch.Tensor, codebook: int) -> torch.Tensor:
        """[S, H] embedding of residual `codebook`'s codes (1 to 7)."""
        return self.embeddings[code_S + (codebook - 1) * self.config.audio_vocab_size]
