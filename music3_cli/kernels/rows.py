"""Row-wise operations of the talker: norms, rotary phases, gated activation, attention of one new position."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm over the last dimension.

    Computed in float32 and rounded to x's dtype twice, before and after the weight: so do the reference's depth decoder
    and transformers' Qwen3, and a single rounding moves bf16 codes off their trajectory within a few frames.
    """
    wide = x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return normed.to(x.dtype) * weight


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """SiLU(gate) * up for [..., 2I] with the gate first; SiLU is rounded before the product."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


def rotary_tables(positions_T: torch.Tensor, dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """[T, dim] cosines and sines in float32, both halves alike (rotate-half convention)."""
    exponent = torch.arange(0, dim, 2, device=positions_T.device, dtype=torch.float32) / dim
    phase = positions_T.float()[:, None] / theta**exponent
    phase = torch.cat((phase, phase), -1)
    return phase.cos(), phase.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Apply rotary phases over the last dimension; tables are in x's dtype and broadcast against x."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def decode_attention(q_RHD: torch.Tensor, k_RGPD: torch.Tensor, v_RGPD: torch.Tensor) -> torch.Tensor:
    """Attention of one new position to P known ones; grouped heads.

    Args:
        q_RHD: queries, H heads; heads g*H/G .. share key head g.
        k_RGPD, v_RGPD: keys and values, G heads.

    Returns:
        [R, H, D]. Two batched products a call with the group's heads as rows, softmax in float32.
    """
    rows, heads, dim = q_RHD.shape
    groups = k_RGPD.shape[1]
    q_RGHD = q_RHD.view(rows, groups, heads // groups, dim)
    scores = (q_RGHD @ k_RGPD.transpose(-1, -2)).float() * dim**-0.5
    return (scores.softmax(-1).to(v_RGPD.dtype) @ v_RGPD).view(rows, heads, dim)
