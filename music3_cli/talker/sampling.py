"""From logits of a song's two rows to the columns that may be drawn (spec section 3). No randomness here."""

from __future__ import annotations

import torch

GUIDANCE = 1.5
TOP_K = 50


def guide(logits_RV: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Guided and conditional logits, [S, V] float32 each, from rows (conditional, unconditional) a song."""
    conditional_SV, unconditional_SV = logits_RV.float().unflatten(0, (-1, 2)).unbind(1)
    return unconditional_SV + (conditional_SV - unconditional_SV) * GUIDANCE, conditional_SV


def keep_top(values_SV: torch.Tensor, by_SV: torch.Tensor) -> torch.Tensor:
    """`values` where `by` is at least its 50th largest of the row (ties stay), -inf elsewhere."""
    threshold_S1 = by_SV.topk(min(TOP_K, by_SV.shape[1]), -1).values[:, -1:]
    return values_SV.masked_fill(by_SV < threshold_S1, -torch.inf)


def semantic_candidates(logits_RV: torch.Tensor) -> torch.Tensor:
    """[S, V] guided logits of the semantic code: the conditional row's 50 likeliest, of these the guided row's 50."""
    guided_SV, conditional_SV = guide(logits_RV)
    masked_SV = keep_top(guided_SV, conditional_SV)
    return keep_top(masked_SV, masked_SV)


def residual_candidates(logits_RV: torch.Tensor) -> torch.Tensor:
    """[S, V] guided logits of a residual code: the guided row's 50 likeliest, no conditional mask."""
    guided_SV, _ = guide(logits_RV)
    return keep_top(guided_SV, guided_SV)
