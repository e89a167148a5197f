"""One frame for every song of a bucket: sample the semantic code, run the depth decoder, make the feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from music3_cli.models.talker import Talker
from music3_cli.randomness import Draws
from music3_cli.talker.sampling import residual_candidates, semantic_candidates


@dataclass(frozen=True)
class Frame:
    """What one step gives.

    Attributes:
        codes_SC: [S, 8] int64; a song that ended has 0 as its first code and meaningless others.
        ended_S: [S] bool, songs that drew the end.
        hidden_SCH: [S, 8, H] the conditional row's hiddens: the backbone's, then the depth decoder's seven.
    """

    codes_SC: torch.Tensor
    ended_S: torch.Tensor
    hidden_SCH: torch.Tensor


def sample_frame(
    talker: Talker, hidden_RH: torch.Tensor, draws: Draws, steps: Sequence[int], active: Sequence[bool]
) -> Frame:
    """From the backbone's last hiddens to a whole frame.

    Args:
        hidden_RH: rows 2s and 2s + 1 are song s, conditional and unconditional.
        steps: each song's step, counted from 0 including the unemitted first.
        active: songs that draw; others are carried along.
    """
    column_S = draws.draw(semantic_candidates(talker.semantic_logits(hidden_RH)), steps, 0, active)
    ended_S = column_S == 0
    # Columns are shifted by one behind the end's; a song that ended goes on with code 0 and is dropped by the caller.
    code_S = (column_S - 1).clamp_min(0)
    still_active = [alive and not ended for alive, ended in zip(active, ended_S.tolist(), strict=True)]

    depth = talker.depth
    cache = depth.new_cache(len(hidden_RH))
    depth(hidden_RH, cache, 0)
    embedded_SH = talker.code_embeddings[code_S]
    codes, hiddens = [code_S], [hidden_RH[::2]]
    for codebook in range(1, depth.config.num_codebooks):
        depth_RH = depth(embedded_SH.repeat_interleave(2, 0), cache, codebook)
        candidates_SV = residual_candidates(depth.logits(depth_RH, codebook))
        code_S = draws.draw(candidates_SV, steps, codebook, still_active)
        codes.append(code_S)
        hiddens.append(depth_RH[::2])
        embedded_SH = depth.embed(code_S, codebook)
    return Frame(torch.stack(codes, 1), ended_S, torch.stack(hiddens, 1))
