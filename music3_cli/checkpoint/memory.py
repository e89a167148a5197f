"""How much memory a checkpoint's weights need on a device. Arithmetic over headers and configs; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from music3_cli.checkpoint.architecture import Architecture
from music3_cli.checkpoint.layout import AUDIO_CODE_OFFSET, LAST_TOKEN, BackboneConfig

if TYPE_CHECKING:
    from music3_cli.checkpoint.inventory import ComponentFiles

TALKER = ("language_model", "rvq_depth_decoder")
ACOUSTIC = ("condition_encoder", "transformer", "vocoder")

ACOUSTIC_WORK_BYTES = 2 * 2**30
"""Activations of one window, both guidance rows, with room to spare."""

Components = Mapping[str, "ComponentFiles"]


def talker_bytes(components: Components, architecture: Architecture, itemsize: int) -> int:
    """The talker's weights in a dtype of `itemsize` bytes: of embedding and head only the rows that are used."""
    backbone = architecture.backbone
    codes = LAST_TOKEN - AUDIO_CODE_OFFSET
    # The embedding keeps the codes; the head keeps the codes and the end of the song.
    unused_rows = 2 * (backbone.vocab_size - codes) - 1
    count = sum(components[name].parameters for name in TALKER)
    return (count - unused_rows * backbone.hidden_size) * itemsize


def acoustic_bytes(components: Components) -> int:
    """The acoustic stage's weights, float32."""
    return sum(components[name].file_bytes for name in ACOUSTIC)


def cache_bytes(backbone: BackboneConfig, positions: int, itemsize: int) -> int:
    """Keys and values of one song's two rows."""
    return 2 * 2 * backbone.num_hidden_layers * backbone.kv_size * itemsize * positions


@dataclass(frozen=True)
class Needs:
    """Device memory in bytes, by the default dtypes (bf16 talker, fp32 acoustic stage).

    Attributes:
        resident: both stages' weights at once.
        swapped: one stage's weights at a time.
        song: what one song of the greatest length adds while the talker runs.
        work: what the acoustic stage adds while it runs.
    """

    talker: int
    acoustic: int
    song: int
    work: int

    @property
    def resident(self) -> int:
        return self.talker + self.acoustic

    @property
    def swapped(self) -> int:
        return max(self.talker, self.acoustic)


def needs(components: Components, architecture: Architecture) -> Needs:
    positions = architecture.backbone.max_position_embeddings
    return Needs(
        talker_bytes(components, architecture, 2),
        acoustic_bytes(components),
        cache_bytes(architecture.backbone, positions, 2),
        ACOUSTIC_WORK_BYTES,
    )
