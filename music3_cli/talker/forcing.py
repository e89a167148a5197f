"""Teacher forcing: the frame hiddens of known codes, many frames at a time.

The backbone runs once over prompt and feedback, the depth decoder over hundreds of frames as rows; only the conditional
row is needed, since nothing is drawn. The mathematics is the frame step's, the shapes are not, so the last bits differ
from what the first render computed (docs/numerics.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from music3_cli.models.talker import Talker

FRAMES_AT_ONCE = 256
"""Frames that the depth decoder runs as rows; its cache takes 32 KiB a row and layer at full size."""


@torch.inference_mode()
def forced_hiddens(talker: Talker, ids: Sequence[int], steps_FC: torch.Tensor) -> Iterator[torch.Tensor]:
    """Frame hiddens of a song whose codes are known.

    Args:
        ids: [T] the prompt's conditional row.
        steps_FC: [F + 1, 8] int64 codes of every step, the unemitted first one included.

    Yields:
        [n, 8, H] for the next n frames, F in all.
    """
    steps_FC = steps_FC.to(talker.head.device)
    text_1TH = talker.embed_text(torch.tensor([list(ids)]))
    # The last frame is fed back to nobody.
    feedback_1FH = talker.embed_frame(steps_FC[:-1])[None]
    hidden_FH = talker.backbone.prefill(torch.cat((text_1TH, feedback_1FH), 1))[0, len(ids) :]
    for first in range(0, len(hidden_FH), FRAMES_AT_ONCE):
        rows = slice(first, first + FRAMES_AT_ONCE)
        yield _depth_hiddens(talker, hidden_FH[rows], steps_FC[1:][rows])


def _depth_hiddens(talker: Talker, hidden_FH: torch.Tensor, codes_FC: torch.Tensor) -> torch.Tensor:
    """[F, 8, H]: the backbone's hidden and the depth decoder's seven."""
    depth = talker.depth
    cache = depth.new_cache(len(hidden_FH))
    depth(hidden_FH, cache, 0)
    hiddens, embedded_FH = [hidden_FH], talker.code_embeddings[codes_FC[:, 0]]
    for codebook in range(1, depth.config.num_codebooks):
        hiddens.append(depth(embedded_FH, cache, codebook))
        embedded_FH = depth.embed(codes_FC[:, codebook], codebook)
    return torch.stack(hiddens, 1)
