"""One frame for every slot: sample the semantic code, run the depth decoder, keep the frame, feed it back.

The step reads and writes only device tensors of fixed shape, so that a CUDA graph can hold it; eager and graph run the
same code. Nothing in it depends on which slots are alive but the values of their own rows.
"""

from __future__ import annotations

import torch

from music3_cli.kernels.embedding import embed_code
from music3_cli.kernels.keep import keep_frame
from music3_cli.models.talker import Talker
from music3_cli.talker.draws import Draws
from music3_cli.talker.state import ROWS_A_SONG, Slots


def frame_step(talker: Talker, slots: Slots, draws: Draws) -> None:
    """Advance every living song by one step, in place."""
    column_S = draws.semantic(talker.semantic_logits(slots.hidden_RH), slots)
    # Columns are shifted by one behind the end's. A song that ended carries a meaningless frame that is not kept.
    codes_SC, hiddens_SCH = _depth(talker, slots, (column_S - 1).clamp_min(0), draws)
    position_R = keep_frame(
        column_S,
        codes_SC,
        hiddens_SCH,
        (slots.position_S, slots.step_S, slots.frames_S, slots.limit_S),
        (slots.alive_S, slots.outcome_S),
        (slots.priming_SC, slots.codes_SFC, slots.hiddens_SFCH),
        slots.cache.positions,
    )
    feedback_RH = talker.embed_frame(codes_SC, ROWS_A_SONG)
    slots.hidden_RH.copy_(talker.backbone.decode(feedback_RH, slots.cache, slots.tables, position_R))


def _depth(talker: Talker, slots: Slots, code_S: torch.Tensor, draws: Draws) -> tuple[torch.Tensor, torch.Tensor]:
    """The frame's codes [S, 8] and the conditional rows' hiddens [S, 8, H]."""
    depth, hidden_RH = talker.depth, slots.hidden_RH
    rows = len(hidden_RH)
    cache = depth.new_cache(rows)
    codes, hiddens = [code_S], [hidden_RH[::2]]
    embedded_RH = embed_code(code_S, talker.code_embeddings, 0, ROWS_A_SONG)
    for codebook in range(1, depth.config.num_codebooks):
        if codebook == 1:
            # Both inputs are known: one pass over the weights for two positions.
            depth_RH = depth(torch.cat((hidden_RH, embedded_RH)), cache, 0, 2)[rows:]
        else:
            depth_RH = depth(embedded_RH, cache, codebook)
        code_S = draws.residual(depth.logits(depth_RH, codebook), slots, codebook)
        codes.append(code_S)
        hiddens.append(depth_RH[::2])
        if codebook < depth.config.num_codebooks - 1:
            embedded_RH = depth.embed(code_S, codebook, ROWS_A_SONG)
    return torch.stack(codes, 1), torch.stack(hiddens, 1)
