"""The acoustic stage's networks as one module."""

from __future__ import annotations

from torch import nn

from music3_cli.models.condition import ConditionEncoder
from music3_cli.models.transformer import FlowTransformer
from music3_cli.models.vocoder import Vocoder


class AcousticModels(nn.Module):
    """Condition encoder, flow transformer and vocoder: they are loaded, moved and dropped together."""

    def __init__(self, condition: ConditionEncoder, transformer: FlowTransformer, vocoder: Vocoder) -> None:
        super().__init__()
        self.condition, self.transformer, self.vocoder = condition, transformer, vocoder
