"""The talker's backbone: Qwen3, pre-norm, grouped heads with q/k norm, fused QKV and gate/up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from music3_cli.checkpoint.layout import BackboneConfig
from music3_cli.kernels.rows import decode_attention, rms_norm, rotary_tables, rotate, silu_mul

REPEATABLE_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""cuDNN's attention is left out: its results do not repeat bit for bit."""


def weight(*shape: int) -> nn.Parameter:
    """An uninitialised inference weight; `checkpoint/load.py` fills it."""
    return nn.Parameter(torch.empty(shape), requires_grad=False)


@dataclass
class KVCache:
    """Keys and values of one song's two rows.

    Attributes:
        k_LRGPD, v_LRGPD: [layers, 2, key heads, capacity, head dim].
        length: positions filled.
    """

    k_LRGPD: torch.Tensor
    v_LRGPD: torch.Tensor
    length: int = 0

    @classmethod
    def empty(cls, config: BackboneConfig, capacity: int, like: torch.Tensor) -> KVCache:
        shape = (config.num_hidden_layers, 2, config.num_key_value_heads, capacity, config.head_dim)
        return cls(like.new_empty(shape), like.new_empty(shape))

    @staticmethod
    def bytes_a_position(config: BackboneConfig, dtype: torch.dtype) -> int:
        """Memory of one position of both rows."""
        return 2 * 2 * config.num_hidden_layers * config.kv_size * dtype.itemsize


class BackboneLayer(nn.Module):
    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden_size
        self.qkv = weight(config.query_size + 2 * config.kv_size, hidden)
        self.out = weight(hidden, config.query_size)
        self.gate_up = weight(2 * config.intermediate_size, hidden)
        self.down = weight(hidden, config.intermediate_size)
        self.q_norm = weight(config.head_dim)
        self.k_norm = weight(config.head_dim)
        self.attention_norm = weight(hidden)
        self.mlp_norm = weight(hidden)

    def heads(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Normed, rotated queries and keys, and values: [..., heads, head dim] for x [..., hidden]."""
        c = self.config
        qkv = F.linear(rms_norm(x, self.attention_norm, c.rms_norm_eps), self.qkv)
        q, k, v = (part.unflatten(-1, (-1, c.head_dim)) for part in qkv.split((c.query_size, c.kv_size, c.kv_size), -1))
        q = rotate(rms_norm(q, self.q_norm, c.rms_norm_eps), cos, sin)
        k = rotate(rms_norm(k, self.k_norm, c.rms_norm_eps), cos, sin)
        return q, k, v

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Output projection, residual and MLP; attended is [..., heads * head dim]."""
        x = x + F.linear(attended, self.out)
        normed = rms_norm(x, self.mlp_norm, self.config.rms_norm_eps)
        return x + F.linear(silu_mul(F.linear(normed, self.gate_up)), self.down)


class Backbone(nn.Module):
    """Embeddings in, final-norm hiddens out; token embedding and head belong to the talker."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.layers: Sequence[BackboneLayer] = nn.ModuleList(  # type: ignore[assignment]
            BackboneLayer(config) for _ in range(config.num_hidden_layers)
        )
        self.norm = weight(config.hidden_size)

    def _phases(self, positions: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = rotary_tables(positions, self.config.head_dim, self.config.rope_theta)
        return cos.to(dtype)[:, None, :], sin.to(dtype)[:, None, :]

    def prefill(self, x_RTH: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """Run one song's prompt (or prompt and codes) through an empty cache.

        Returns:
            [R, T, H] final-norm hiddens of every position.
        """
        length = x_RTH.shape[1]
        cos, sin = self._phases(torch.arange(length, device=x_RTH.device), x_RTH.dtype)
        x = x_RTH
        for index, layer in enumerate(self.layers):
            q, k, v = (part.transpose(1, 2) for part in layer.heads(x, cos, sin))
            cache.k_LRGPD[index, :, :, :length] = k
            cache.v_LRGPD[index, :, :, :length] = v
            group = q.shape[1] // k.shape[1]
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            with sdpa_kernel(REPEATABLE_ATTENTION):
                attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = layer.finish(x, attended.transpose(1, 2).flatten(2))
        cache.length = length
        return rms_norm(x, self.norm, self.config.rms_norm_eps)

    def decode(self, x_RH: torch.Tensor, caches: Sequence[KVCache | None]) -> torch.Tensor:
        """One new position for each song; rows 2s and 2s + 1 belong to song s.

        Every operation works on all rows but attention, which takes a song at a time over its own length: so the
        arithmetic of a song is the same whatever songs are beside it. A slot without a cache is idle.

        Returns:
            [R, H] final-norm hiddens.
        """
        positions = torch.tensor([cache.length if cache else 0 for cache in caches], device=x_RH.device)
        cos, sin = self._phases(positions.repeat_interleave(2), x_RH.dtype)
        x = x_RH
        for index, layer in enumerate(self.layers):
            q, k, v = layer.heads(x, cos, sin)
            attended = torch.zeros_like(q)
            for slot, cache in enumerate(caches):
                if cache is None:
                    continue
                rows, end = slice(2 * slot, 2 * slot + 2), cache.length + 1
                cache.k_LRGPD[index, :, :, cache.length] = k[rows]
                cache.v_LRGPD[index, :, :, cache.length] = v[rows]
                attended[rows] = decode_attention(
                    q[rows], cache.k_LRGPD[index, :, :, :end], cache.v_LRGPD[index, :, :, :end]
                )
            x = layer.finish(x, attended.flatten(1))
        for cache in caches:
            if cache is not None:
                cache.length += 1
        return rms_norm(x, self.norm, self.config.rms_norm_eps)
