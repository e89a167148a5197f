"""The talker's depth decoder: within a frame, from the backbone's hidden and the codes so far to the next codebook."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from music3_cli.checkpoint.layout import DepthConfig
from music3_cli.kernels.depth_attention import depth_attend
from music3_cli.kernels.embedding import embed_code
from music3_cli.kernels.linear import gated_linear, linear_parts
from music3_cli.kernels.norm import add_norm
from music3_cli.kernels.quantized import Matrix
from music3_cli.models.backbone import weight

NORM_EPS = 1e-6


class DepthLayer(nn.Module):
    def __init__(self, config: DepthConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.qkv: Matrix = weight(3 * hidden, hidden)
        self.out: Matrix = weight(hidden, hidden)
        self.gate_up: Matrix = weight(2 * config.intermediate_size, hidden)
        self.down: Matrix = weight(hidden, config.intermediate_size)
        self.attention_norm = weight(hidden)
        self.mlp_norm = weight(hidden)


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

    def forward(self, x_RH: torch.Tensor, cache: torch.Tensor, first: int, count: int = 1) -> torch.Tensor:
        """Run `count` positions of the frame: 0 is the backbone's hidden, i the embedding of code i - 1.

        Args:
            x_RH: unprojected inputs, [count x R, H]: all rows' first new position, then all rows' second.
            cache: from `new_cache`; positions before `first` must have been run.

        Returns:
            [count x R, H] normed hiddens; that of position i feeds head i (1 to 7).
        """
        learned = self.positions[first : first + count]
        norms = [layer.attention_norm for layer in self.layers[1:]] + [self.norm]
        parts = linear_parts(x_RH, self.projection)
        x, normed = add_norm(parts, learned, self.layers[0].attention_norm, NORM_EPS)
        for layer, layer_cache, next_norm in zip(self.layers, cache, norms, strict=True):
            attended = depth_attend(linear_parts(normed, layer.qkv), layer_cache, first, count)
            x, normed = add_norm(linear_parts(attended, layer.out), x, layer.mlp_norm, NORM_EPS)
            x, normed = add_norm(linear_parts(gated_linear(normed, layer.gate_up), layer.down), x, next_norm, NORM_EPS)
        return normed

    def logits(self, hidden_RH: torch.Tensor, codebook: int) -> torch.Tensor:
        """Partial sums [parts, R, codes] of the logits of residual `codebook` (1 to 7)."""
        return linear_parts(hidden_RH, self.heads[codebook - 1])

    def embed(self, code_S: torch.Tensor, codebook: int, repeat: int = 1) -> torch.Tensor:
        """[repeat x S, H] embedding of residual `codebook`'s codes (1 to 7)."""
        return embed_code(code_S, self.embeddings, (codebook - 1) * self.config.audio_vocab_size, repeat)
