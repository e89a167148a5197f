"""The talker's backbone: Qwen3, pre-norm, grouped heads with q/k norm, fused QKV and gate/up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend

from music3_cli.checkpoint.layout import BackboneConfig
from music3_cli.kernels.attention import HeadNorms, LayerCache, attend
from music3_cli.kernels.linear import gated_linear, linear_parts
from music3_cli.kernels.norm import add_norm, rms_norm
from music3_cli.kernels.quantized import Matrix, dense
from music3_cli.kernels.rotary import rotary_tables, rotate
from music3_cli.kernels.settings import attention_by

REPEATABLE_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""cuDNN's attention is left out: its results do not repeat bit for bit."""


def weight(*shape: int) -> nn.Parameter:
    """An uninitialised inference weight; `checkpoint/load.py` fills it."""
    return nn.Parameter(torch.empty(shape), requires_grad=False)


@dataclass
class KVCache:
    """Keys and values of some rows.

    Attributes:
        k_LRGPD, v_LRGPD: [layers, rows, key heads, positions, head dim].
        arrived_RG: see `LayerCache`; the layers share it.
    """

    k_LRGPD: torch.Tensor
    v_LRGPD: torch.Tensor
    arrived_RG: torch.Tensor

    @classmethod
    def empty(cls, config: BackboneConfig, positions: int, like: torch.Tensor, rows: int = 2) -> KVCache:
        shape = (config.num_hidden_layers, rows, config.num_key_value_heads, positions, config.head_dim)
        arrived_RG = like.new_zeros(rows, config.num_key_value_heads, dtype=torch.int32)
        return cls(like.new_zeros(shape), like.new_zeros(shape), arrived_RG)

    @property
    def positions(self) -> int:
        return self.k_LRGPD.shape[3]

    def rows(self, first: int, stop: int) -> KVCache:
        """A view of some rows."""
        return KVCache(self.k_LRGPD[:, first:stop], self.v_LRGPD[:, first:stop], self.arrived_RG[first:stop])

    def layer(self, index: int) -> LayerCache:
        """One layer's part."""
        return LayerCache(self.k_LRGPD[index], self.v_LRGPD[index], self.arrived_RG)


class BackboneLayer(nn.Module):
    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden_size
        self.qkv: Matrix = weight(config.query_size + 2 * config.kv_size, hidden)
        self.out: Matrix = weight(hidden, config.query_size)
        self.gate_up: Matrix = weight(2 * config.intermediate_size, hidden)
        self.down: Matrix = weight(hidden, config.intermediate_size)
        self.q_norm = weight(config.head_dim)
        self.k_norm = weight(config.head_dim)
        self.attention_norm = weight(hidden)
        self.mlp_norm = weight(hidden)

    def prefill(
        self,
        x_RTH: torch.Tensor,
        phases: tuple[torch.Tensor, torch.Tensor],
        cache: LayerCache | None,
    ) -> torch.Tensor:
        """All positions of a prompt at once; keys and values go to the front of the cache, if there is one."""
        c, length, dtype = self.config, x_RTH.shape[1], x_RTH.dtype
        qkv = F.linear(rms_norm(x_RTH, self.attention_norm, c.rms_norm_eps), dense(self.qkv, dtype))
        q, k, v = (part.unflatten(-1, (-1, c.head_dim)) for part in qkv.split((c.query_size, c.kv_size, c.kv_size), -1))
        q = rotate(rms_norm(q, self.q_norm, c.rms_norm_eps), *phases).transpose(1, 2)
        k = rotate(rms_norm(k, self.k_norm, c.rms_norm_eps), *phases).transpose(1, 2)
        v = v.transpose(1, 2)
        if cache is not None:
            cache.keys_RGPD[:, :, :length], cache.values_RGPD[:, :, :length] = k, v
        shared = c.num_attention_heads // c.num_key_value_heads
        with attention_by(*REPEATABLE_ATTENTION):
            attended = F.scaled_dot_product_attention(
                q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), is_causal=True
            )
        x_RTH = x_RTH + F.linear(attended.transpose(1, 2).flatten(2), dense(self.out, dtype))
        normed = rms_norm(x_RTH, self.mlp_norm, c.rms_norm_eps)
        gate, up = F.linear(normed, dense(self.gate_up, dtype)).chunk(2, -1)
        return x_RTH + F.linear(F.silu(gate) * up, dense(self.down, dtype))


class Backbone(nn.Module):
    """Embeddings in, final-norm hiddens out; token embedding and head belong to the talker."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.layers: Sequence[BackboneLayer] = nn.ModuleList(  # type: ignore[assignment]
            BackboneLayer(config) for _ in range(config.num_hidden_layers)
        )
        self.norm = weight(config.hidden_size)

    def phases(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """[positions, head dim] cosines and sines in the weights' dtype."""
        every = torch.arange(positions, device=self.norm.device)
        cos, sin = rotary_tables(every, self.config.head_dim, self.config.rope_theta)
        return cos.to(self.norm.dtype), sin.to(self.norm.dtype)

    def prefill(self, x_RTH: torch.Tensor, cache: KVCache | None = None) -> torch.Tensor:
        """Run one song's prompt (or prompt and codes) from position 0 on, and fill the cache if there is one.

        Returns:
            [R, T, H] final-norm hiddens of every position.
        """
        cos, sin = self.phases(x_RTH.shape[1])
        phases = cos[:, None], sin[:, None]
        for index, layer in enumerate(self.layers):
            x_RTH = layer.prefill(x_RTH, phases, cache.layer(index) if cache else None)
        return rms_norm(x_RTH, self.norm, self.config.rms_norm_eps)

    def decode(
        self, x_RH: torch.Tensor, cache: KVCache, tables: tuple[torch.Tensor, torch.Tensor], position_R: torch.Tensor
    ) -> torch.Tensor:
        """One new position for each row.

        Args:
            tables: from `phases`, for all positions of the cache.
            position_R: int64 on the device, where each row's new position is; the rows of a song have the same.

        Returns:
            [R, H] final-norm hiddens.
        """
        eps = self.config.rms_norm_eps
        norms = [layer.attention_norm for layer in self.layers[1:]] + [self.norm]
        normed = rms_norm(x_RH, self.layers[0].attention_norm, eps)
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            qkv = linear_parts(normed, layer.qkv)
            attended = attend(qkv, HeadNorms(layer.q_norm, layer.k_norm, eps), tables, position_R, cache.layer(index))
            x_RH, normed = add_norm(linear_parts(attended, layer.out), x_RH, layer.mlp_norm, eps)
            inner = gated_linear(normed, layer.gate_up)
            x_RH, normed = add_norm(linear_parts(inner, layer.down), x_RH, next_norm, eps)
        return normed
