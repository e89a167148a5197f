"""The talker's weights as one module: backbone, depth decoder, and the slices of embedding and head that are used."""

from __future__ import annotations

import torch
from torch import nn

from music3_cli.checkpoint.layout import AUDIO_CODE_OFFSET, SEMANTIC_CODES, BackboneConfig, DepthConfig
from music3_cli.kernels.embedding import embed_frame
from music3_cli.kernels.linear import linear_parts
from music3_cli.kernels.quantized import Int8Matrix
from music3_cli.models.backbone import Backbone, weight
from music3_cli.models.depth import DepthDecoder

LAYER_MATRICES = ("qkv", "out", "gate_up", "down")


class Talker(nn.Module):
    """Backbone and depth decoder with what they share.

    Attributes:
        text_embeddings: [tokens before the first code, H], on the host: only a prefill reads them.
        code_embeddings: [16384, H], the embedding rows of the semantic codes.
        head: [16385, H], row 0 is `<|audio_end|>`, row 1 + j is code j. No other token can be sampled: the slice is
            exact.
    """

    def __init__(self, backbone: BackboneConfig, depth: DepthConfig) -> None:
        super().__init__()
        self.backbone = Backbone(backbone)
        self.depth = DepthDecoder(depth)
        self.text_embeddings = torch.empty(AUDIO_CODE_OFFSET, backbone.hidden_size)
        self.code_embeddings = weight(SEMANTIC_CODES, backbone.hidden_size)
        self.head = weight(1 + SEMANTIC_CODES, backbone.hidden_size)

    def hold_layers_in_int8(self) -> None:
        """Make room for int8 matrices in place of the layers' own; embeddings, norms, heads and the depth decoder's
        projection stay.
        """
        for layer in (*self.backbone.layers, *self.depth.layers):
            for name in LAYER_MATRICES:
                outputs, inner = getattr(layer, name).shape
                delattr(layer, name)
                setattr(layer, name, Int8Matrix(outputs, inner))

    def embed_text(self, ids_RT: torch.Tensor) -> torch.Tensor:
        """[R, T, H] on the talker's device for host ids."""
        return self.text_embeddings[ids_RT].to(self.head.device, self.head.dtype)

    def embed_frame(self, codes_SC: torch.Tensor, repeat: int = 1) -> torch.Tensor:
        """[repeat x S, H] feedback of one frame's 8 codes: (E[c0] + sum of the residual embeddings) / sqrt(8)."""
        depth = self.depth
        return embed_frame(codes_SC, self.code_embeddings, depth.embeddings, depth.config.audio_vocab_size, repeat)

    def semantic_logits(self, hidden_RH: torch.Tensor) -> torch.Tensor:
        """Partial sums [parts, R, 16385]; column 0 ends the song."""
        return linear_parts(hidden_RH, self.head)
