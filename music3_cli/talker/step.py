"""One frame for every slot: sample the semantic code, run the depth decoder, keep the frame, feed it back.

The step reads and writes only device tensors of fixed shape, so that a CUDA graph can hold it; eager and graph run the
same code. Nothing in it depends on which slots are alive but the values of their own rows.
"""

from __future__ import annotations

import torch

from music3_cli.models.talker import Talker
from music3_cli.talker.draws import Draws
from music3_cli.talker.state import AT_CEILING, ENDED, RING, Slots


def frame_step(talker: Talker, slots: Slots, draws: Draws) -> None:
    """Advance every living song by one step, in place."""
    column_S = draws.semantic(talker.semantic_logits(slots.hidden_RH), slots)
    ended_S = slots.alive_S & (column_S == 0)
    alive_S = slots.alive_S & ~ended_S
    # Columns are shifted by one behind the end's. A song that ended carries a meaningless frame that is not kept.
    codes_SC, hiddens_SCH = _depth(talker, slots, (column_S - 1).clamp_min(0), draws, alive_S)

    # The first step only leads past the prompt and is not emitted.
    emits_S = alive_S & (slots.step_S > 0)
    behind = slots.codes_SFC.shape[1] - 1
    place_S = torch.where(emits_S, slots.frames_S, behind)
    slot_S = torch.arange(slots.count, device=place_S.device)
    slots.codes_SFC[slot_S, place_S] = codes_SC.to(slots.codes_SFC.dtype)
    slots.hiddens_SFCH[slot_S, torch.where(emits_S, slots.frames_S % RING, RING)] = hiddens_SCH
    slots.priming_SC.copy_(torch.where((slots.step_S == 0)[:, None], codes_SC.to(torch.int32), slots.priming_SC))
    slots.frames_S.add_(emits_S)
    full_S = alive_S & (slots.frames_S >= slots.limit_S)
    slots.outcome_S.copy_(torch.where(ended_S, ENDED, torch.where(full_S, AT_CEILING, slots.outcome_S)))
    slots.alive_S.copy_(alive_S & ~full_S)

    feedback_RH = talker.embed_frame(codes_SC).repeat_interleave(2, 0)
    # An idle slot's position may be the first that no longer fits.
    position_R = slots.position_S.clamp_max(slots.cache.positions - 1).repeat_interleave(2)
    slots.hidden_RH.copy_(talker.backbone.decode(feedback_RH, slots.cache, slots.tables, position_R))
    slots.position_S.add_(slots.alive_S)
    slots.step_S.add_(slots.alive_S)


def _depth(
    talker: Talker, slots: Slots, code_S: torch.Tensor, draws: Draws, alive_S: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The frame's codes [S, 8] and the conditional rows' hiddens [S, 8, H]."""
    depth, hidden_RH = talker.depth, slots.hidden_RH
    rows = len(hidden_RH)
    cache = depth.new_cache(rows)
    codes, hiddens = [code_S], [hidden_RH[::2]]
    embedded_RH = talker.code_embeddings[code_S].repeat_interleave(2, 0)
    for codebook in range(1, depth.config.num_codebooks):
        if codebook == 1:
            # Both inputs are known: one pass over the weights for two positions.
            depth_RH = depth(torch.cat((hidden_RH, embedded_RH)), cache, 0, 2)[rows:]
        else:
            depth_RH = depth(embedded_RH, cache, codebook)
        code_S = draws.residual(depth.logits(depth_RH, codebook), slots, codebook, alive_S)
        codes.append(code_S)
        hiddens.append(depth_RH[::2])
        if codebook < depth.config.num_codebooks - 1:
            embedded_RH = depth.embed(code_S, codebook).repeat_interleave(2, 0)
    return torch.stack(codes, 1), torch.stack(hiddens, 1)
