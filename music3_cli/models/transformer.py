"""The flow-matching transformer: velocity of noisy latents under a condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from music3_cli.checkpoint.layout import TransformerConfig
from music3_cli.kernels.full_attention import full_attention
from music3_cli.kernels.gate import gate
from music3_cli.kernels.layer_norm import Affine, add_bias, add_layer_norm, layer_norm
from music3_cli.kernels.rotary import rotary_tables
from music3_cli.kernels.split_heads import Tables, split_heads
from music3_cli.kernels.tf32 import rounded_to_tf32
from music3_cli.models.backbone import weight

ROTARY_THETA = 10000.0
NORM_EPS = 1e-5


@dataclass(frozen=True)
class Matrices:
    """A block's matrices."""

    qkv: torch.Tensor
    out: torch.Tensor
    ff_in: torch.Tensor
    ff_out: torch.Tensor

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Matrices:
        return Matrices(change(self.qkv), change(self.out), change(self.ff_in), change(self.ff_out))


@dataclass(frozen=True)
class BlockDtypes:
    """Dtypes of the blocks' products and of their attention. All else is float32: the residual stream, norms, biases,
    rotary phases, and the products before and behind the blocks.

    Attributes:
        tf32_inputs, tf32_matrices: what products are given, and the matrices, are rounded to TF32 beforehand; for
            products that do that anyway (kernels/tf32.py).
    """

    product: torch.dtype = torch.float32
    attention: torch.dtype = torch.float32
    tf32_inputs: bool = False
    tf32_matrices: bool = False


class TransformerBlock(nn.Module):
    """Pre-LayerNorm block: bidirectional attention with partly rotated heads, then a gated MLP (value, then gate)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        inner = config.inner_dim
        self.head_dim = config.attention_head_dim
        self.norm1_weight, self.norm1_bias = weight(inner), weight(inner)
        self.norm2_weight, self.norm2_bias = weight(inner), weight(inner)
        self.qkv = weight(3 * inner, inner)
        self.out = weight(inner, inner)
        self.ff_in, self.ff_in_bias = weight(2 * config.ff_inner_dim, inner), weight(2 * config.ff_inner_dim)
        self.ff_out, self.ff_out_bias = weight(inner, config.ff_inner_dim), weight(inner)
        self.holds_tf32 = False
        self._copies: dict[torch.dtype, Matrices] = {}

    @property
    def norm1(self) -> Affine:
        return self.norm1_weight, self.norm1_bias

    @property
    def stored(self) -> Matrices:
        return Matrices(self.qkv, self.out, self.ff_in, self.ff_out)

    def matrices(self, dtypes: BlockDtypes) -> Matrices:
        """The block's matrices for such products. Rounded copies of the stored ones are kept, wider ones are not."""
        dtype, stored = dtypes.product, self.stored
        rounds = dtypes.tf32_matrices and not self.holds_tf32
        if dtype == self.qkv.dtype and not rounds:
            return stored
        if dtype.itemsize > self.qkv.dtype.itemsize:
            return stored.map(lambda matrix: matrix.to(dtype))
        if dtype not in self._copies:  # of float32 the one that is rounded
            self._copies[dtype] = stored.map(rounded_to_tf32 if rounds else lambda matrix: matrix.to(dtype))
        return self._copies[dtype]

    def forward(
        self,
        x_BTC: torch.Tensor,
        normed_BTC: torch.Tensor,
        tables: Tables,
        matrices: Matrices,
        dtypes: BlockDtypes,
        following: Affine | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One block.

        Args:
            x_BTC: the residual stream.
            normed_BTC: its first norm, in the products' dtype.
            following: the next block's first norm, which is computed with this block's last sum.

        Returns:
            the residual stream, and its next norm (itself behind the last block).
        """
        dtype, tf32 = dtypes.product, dtypes.tf32_inputs
        heads = split_heads(F.linear(normed_BTC, matrices.qkv), tables, self.head_dim, dtypes.attention)
        attended = F.linear(full_attention(*heads, dtype, tf32), matrices.out)
        norm2 = self.norm2_weight, self.norm2_bias
        x_BTC, normed_BTC = add_layer_norm(x_BTC, attended, None, norm2, NORM_EPS, dtype, tf32)
        inner = gate(F.linear(normed_BTC, matrices.ff_in), self.ff_in_bias, tf32)
        product = F.linear(inner, matrices.ff_out)
        if following is None:
            x_BTC = x_BTC + add_bias(product.to(x_BTC.dtype), self.ff_out_bias)
            return x_BTC, x_BTC
        return add_layer_norm(x_BTC, product, self.ff_out_bias, following, NORM_EPS, dtype, tf32)


class FlowTransformer(nn.Module):
    """The blocks between two linear maps.

    The released weights have two products on each side, with nothing between them but a sum: in front
    `proj_in (P + 1) (latents, zeros, condition)`, behind `(Q + 1) proj_out`. Each pair is one matrix here, the zeros'
    columns are left out, and the condition's part, which all steps of a window share, is computed once: see `base`.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        inner, channels = config.inner_dim, config.in_channels
        self.time_proj = weight(config.fourier_embedding_dim // 2)
        self.time1, self.time1_bias = weight(inner, config.fourier_embedding_dim), weight(inner)
        self.time2, self.time2_bias = weight(inner, inner), weight(inner)
        self.latents_in = weight(inner, channels)
        self.condition_in = weight(inner, config.condition_dim)
        self.blocks: Sequence[TransformerBlock] = nn.ModuleList(  # type: ignore[assignment]
            TransformerBlock(config) for _ in range(config.num_layers)
        )
        self.velocity_out = weight(channels, inner)
        self._tables: Tables | None = None

    def base(self, condition_LC: torch.Tensor) -> torch.Tensor:
        """[L, inner], what a window's condition brings into every step. A condition of zeros brings zeros."""
        return F.linear(condition_LC, self.condition_in)

    def forward(
        self,
        latents_LC: torch.Tensor,
        token_C: torch.Tensor,
        bases_BLC: torch.Tensor,
        dtypes: BlockDtypes = BlockDtypes(),  # noqa: B008  frozen
    ) -> torch.Tensor:
        """Velocity of the same latents under B conditions.

        Args:
            latents_LC: noisy latents, channels last.
            token_C: the time's token, see `time_token`.
            bases_BLC: of the conditions, see `base`.

        Returns:
            [B, L, C].
        """
        # The time is one more token in front, dropped behind the blocks.
        rows, length, inner = bases_BLC.shape
        x = bases_BLC.new_empty(rows, length + 1, inner)
        x[:, 0] = token_C
        torch.add(bases_BLC, F.linear(latents_LC, self.latents_in), out=x[:, 1:])
        tables = self._tables_of(length + 1, x.device)
        normed = layer_norm(x, self.blocks[0].norm1, NORM_EPS, dtypes.product, dtypes.tf32_inputs)
        following = [*(block.norm1 for block in self.blocks[1:]), None]
        for block, norm in zip(self.blocks, following, strict=True):
            x, normed = block(x, normed, tables, block.matrices(dtypes), dtypes, norm)
        return F.linear(x[:, 1:], self.velocity_out)

    def hold_matrices_in(self, dtype: torch.dtype) -> None:
        """Store the blocks' matrices in `dtype`; see `TransformerBlock.matrices` for what it costs to use others."""
        for block in self.blocks:
            for matrix in (block.qkv, block.out, block.ff_in, block.ff_out):
                matrix.data = matrix.data.to(dtype)

    @torch.inference_mode()
    def round_matrices(self) -> None:
        """Round the blocks' float32 matrices to TF32 for good: for songs that have TF32 products and no others."""
        for block in self.blocks:
            if not block.holds_tf32 and block.qkv.dtype == torch.float32:
                block.stored.map(lambda matrix: matrix.copy_(rounded_to_tf32(matrix)))
                block.holds_tf32 = True

    def time_token(self, time: float) -> torch.Tensor:
        """[C], the token of a time in [0, 1]; 0 is noise."""
        phase = 2 * math.pi * torch.tensor(time, device=self.time_proj.device) * self.time_proj
        features = torch.cat((phase.cos(), phase.sin()))
        return F.linear(F.silu(F.linear(features, self.time1, self.time1_bias)), self.time2, self.time2_bias)

    def _tables_of(self, positions: int, device: torch.device) -> Tables:
        """The first `positions` of one pair of tables, which grows to the longest window."""
        if self._tables is None or len(self._tables[0]) < positions:
            self._tables = rotary_tables(torch.arange(positions, device=device), self.config.rotary_dim, ROTARY_THETA)
        cos, sin = self._tables
        return cos[:positions], sin[:positions]
