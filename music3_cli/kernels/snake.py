"""The vocoder's activation, with what stands between it and the convolution before it."""

from __future__ import annotations

import torch

from music3_cli.kernels.triton_support import jit, tl, triton, use_kernel

_SAMPLES = 1024


def snake(
    product_BCT: torch.Tensor, bias_C: torch.Tensor, alpha_C: torch.Tensor, residual_BCT: torch.Tensor | None = None
) -> torch.Tensor:
    """y + sin^2(alpha y) / (alpha + 1e-9) (Ziyin et al. 2020), [B, C, T], with y = product + bias, or residual +
    (product + bias).
    """
    if not use_kernel(product_BCT):
        return _activate(_sum(product_BCT, bias_C, residual_BCT), alpha_C)
    out = torch.empty_like(product_BCT)
    _launch(product_BCT, bias_C, alpha_C, residual_BCT, None, out)
    return out


def sum_and_snake(
    product_BCT: torch.Tensor, bias_C: torch.Tensor, alpha_C: torch.Tensor, residual_BCT: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`snake` with its y: y, snake(y)."""
    if not use_kernel(product_BCT):
        y = _sum(product_BCT, bias_C, residual_BCT)
        return y, _activate(y, alpha_C)
    y, out = torch.empty_like(product_BCT), torch.empty_like(product_BCT)
    _launch(product_BCT, bias_C, alpha_C, residual_BCT, y, out)
    return y, out


def _sum(product_BCT: torch.Tensor, bias_C: torch.Tensor, residual_BCT: torch.Tensor | None) -> torch.Tensor:
    biased = product_BCT + bias_C[:, None]
    return biased if residual_BCT is None else residual_BCT + biased


def _activate(y_BCT: torch.Tensor, alpha_C: torch.Tensor) -> torch.Tensor:
    alpha = alpha_C[:, None]
    return y_BCT + (alpha + 1e-9).reciprocal() * torch.sin(alpha * y_BCT).square()


def _launch(
    product_BCT: torch.Tensor,
    bias_C: torch.Tensor,
    alpha_C: torch.Tensor,
    residual_BCT: torch.Tensor | None,
    y: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    rows, channels, samples = product_BCT.shape
    _snake[(triton.cdiv(samples, _SAMPLES), rows * channels)](
        product_BCT, bias_C, alpha_C, residual_BCT, y, out, channels, samples, SAMPLES=_SAMPLES
    )


@jit
def _snake(product, bias, alpha, residual, y, out, channels, samples, SAMPLES: tl.constexpr):
    row = tl.program_id(1)
    channel = row % channels
    sample = tl.program_id(0) * SAMPLES + tl.arange(0, SAMPLES)
    inside = sample < samples
    at = row.to(tl.int64) * samples + sample
    total = tl.load(product + at, mask=inside, other=0.0) + tl.load(bias + channel)
    if residual is not None:
        total += tl.load(residual + at, mask=inside, other=0.0)
    if y is not None:
        tl.store(y + at, total, mask=inside)
    a = tl.load(alpha + channel)
    wave = tl.sin(a * total)
    tl.store(out + at, total + (1.0 / (a + 1e-9)) * wave * wave, mask=inside)
