"""How much memory a checkpoint's weights need on a device. Arithmetic over headers and configs; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from music3_cli.checkpoint.architecture import Architecture
from music3_cli.checkpoint.layout import AUDIO_CODE_OFFSET, LAST_TOKEN, BackboneConfig, DepthConfig, TransformerConfig

if TYPE_CHECKING:
    from music3_cli.checkpoint.inventory import ComponentFiles

TALKER = ("language_model", "rvq_depth_decoder")
ACOUSTIC = ("condition_encoder", "transformer", "vocoder")

ACOUSTIC_WORK_BYTES = 2 * 2**30
"""Activations of one window, both guidance rows, with room to spare."""

SMALL_BYTES = 2**30
"""A talker of fewer bytes is a miniature."""

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
class Sizes:
    """What a checkpoint's parts need on a device, in bytes.

    Attributes:
        talker: weights of the talker, `full` and `int8`.
        acoustic: weights of the acoustic stage, float32.
        half: the transformer's matrices in float16.
        work: what the acoustic stage adds while it works.
        position: keys and values of one song's two rows a position.
        frame: one frame's hiddens.
        ring: the hiddens that a talker slot holds.
        prefill: activations of a prompt a token, both rows.
        most_positions: the model's context.
    """

    talker: Mapping[str, int]
    acoustic: int
    half: int
    work: int
    position: int
    frame: int
    ring: int
    prefill: int
    most_positions: int

    @property
    def is_small(self) -> bool:
        """Of a miniature, whose work is as small as its weights."""
        return self.talker["full"] < SMALL_BYTES


def sizes(components: Components, architecture: Architecture, itemsize: int = 2, ring_frames: int = 201) -> Sizes:
    """For a talker of `itemsize` bytes an element."""
    backbone = architecture.backbone
    full, acoustic = talker_bytes(components, architecture, itemsize), acoustic_bytes(components)
    frame = architecture.depth.num_codebooks * backbone.hidden_size * itemsize
    # The widest moment of a layer: gate and up, their product, and the residual stream with its norm.
    prefill = 2 * (3 * backbone.intermediate_size + 4 * backbone.hidden_size) * itemsize
    return Sizes(
        talker={"full": full, "int8": full - int8_saving(architecture, itemsize)},
        acoustic=acoustic,
        half=_matrices(architecture.transformer) * 2,
        work=ACOUSTIC_WORK_BYTES if full >= SMALL_BYTES else 64 * 2**20,
        position=cache_bytes(backbone, 1, itemsize),
        frame=frame,
        ring=ring_frames * frame,
        prefill=prefill,
        most_positions=backbone.max_position_embeddings,
    )


def _matrices(transformer: TransformerConfig) -> int:
    """Elements of the matrices in the transformer's blocks: qkv, out, and the gated MLP's two."""
    inner = transformer.inner_dim
    return transformer.num_layers * inner * (4 * inner + 3 * transformer.ff_inner_dim)


def frame_bytes(backbone: BackboneConfig, depth: DepthConfig, itemsize: int, int8: bool = False) -> int:
    """Weights that the talker reads for a frame, however many songs share it: backbone and head once, the depth
    decoder's layers for each residual codebook; of embeddings it reads next to nothing.
    """
    codes, passes = LAST_TOKEN - AUDIO_CODE_OFFSET, depth.num_codebooks - 1
    once = sum(
        prod(shape) for name, shape in backbone.shapes().items() if name.startswith(("model.layers", "model.norm"))
    )
    once += (1 + codes) * backbone.hidden_size + passes * depth.audio_vocab_size * depth.hidden_size
    again = sum(prod(shape) for name, shape in depth.shapes().items() if name.startswith(("layers", "projection")))
    saved = _backbone_saving(backbone, itemsize) + passes * _depth_saving(depth, itemsize) if int8 else 0
    return (once + passes * again) * itemsize - saved


def int8_saving(architecture: Architecture, itemsize: int) -> int:
    """What the talker's large products save as int8 with a float32 scale for every output (kernels/quantized.py)."""
    return _backbone_saving(architecture.backbone, itemsize) + _depth_saving(architecture.depth, itemsize)


def _backbone_saving(b: BackboneConfig, itemsize: int) -> int:
    layer = _int8_saving(b.query_size + 2 * b.kv_size, b.hidden_size, itemsize)
    layer += _int8_saving(b.hidden_size, b.query_size, itemsize)
    layer += _int8_saving(2 * b.intermediate_size, b.hidden_size, itemsize)
    layer += _int8_saving(b.hidden_size, b.intermediate_size, itemsize)
    return b.num_hidden_layers * layer


def _depth_saving(d: DepthConfig, itemsize: int) -> int:
    layer = _int8_saving(3 * d.hidden_size, d.hidden_size, itemsize)
    layer += _int8_saving(d.hidden_size, d.hidden_size, itemsize)
    layer += _int8_saving(2 * d.intermediate_size, d.hidden_size, itemsize)
    layer += _int8_saving(d.hidden_size, d.intermediate_size, itemsize)
    return d.num_layers * layer


def _int8_saving(outputs: int, inner: int, itemsize: int) -> int:
    return outputs * inner * (itemsize - 1) - 4 * outputs


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
    of = sizes(components, architecture)
    return Needs(of.talker["full"], of.acoustic, of.most_positions * of.position, of.work)
