"""Weights from a checked checkpoint into the networks: fused, folded, sliced, in the dtypes of spec section 4.

Networks are built on the meta device and given storage once; tensors are copied straight into their places, so that the
peak is the network and one tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from safetensors import safe_open

from music3_cli.checkpoint.inventory import Checkpoint, ComponentFiles
from music3_cli.checkpoint.layout import AUDIO_CODE_OFFSET, AUDIO_END, LAST_TOKEN
from music3_cli.kernels.quantized import Int8Matrix, Matrix
from music3_cli.models.acoustic import AcousticModels
from music3_cli.models.condition import ConditionEncoder
from music3_cli.models.talker import Talker
from music3_cli.models.transformer import FlowTransformer
from music3_cli.models.vocoder import Conv, Vocoder

Progress = Callable[[int], None]
"""Told the bytes of every tensor read."""


HOST = torch.device("cpu")


class TensorReader:
    """Reads tensors of one component by name and remembers which were used."""

    def __init__(self, files: ComponentFiles, device: torch.device, progress: Progress) -> None:
        self._files, self._device, self._progress = files, device, progress
        self._stack = ExitStack()
        self._open: dict[str, Any] = {}
        self._unused = set(files.tensors)

    def __enter__(self) -> TensorReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if kind is None and self._unused:
            raise AssertionError(f"tensors never loaded: {sorted(self._unused)[:3]}")

    def rows(self, name: str, start: int, stop: int, device: torch.device | None = None) -> torch.Tensor:
        """Rows [start, stop) of a tensor, in its stored dtype, on `device` (by default the network's)."""
        part: torch.Tensor = self._handle(name).get_slice(name)[start:stop]
        self._unused.discard(name)
        self._progress(part.nbytes)
        return part.to(device or self._device)

    def __call__(self, name: str, device: torch.device | None = None) -> torch.Tensor:
        """A whole tensor, in its stored dtype, on `device` (by default the network's)."""
        tensor: torch.Tensor = self._handle(name).get_tensor(name)
        self._unused.discard(name)
        self._progress(tensor.nbytes)
        return tensor.to(device or self._device)

    def _handle(self, name: str) -> Any:
        path = str(self._files.tensors[name][0].path)
        if path not in self._open:
            self._open[path] = self._stack.enter_context(safe_open(path, framework="pt", device="cpu"))
        return self._open[path]


def no_progress(_: int) -> None:
    """Tells nobody."""


def load_talker(
    checkpoint: Checkpoint,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress = no_progress,
    int8: bool = False,
) -> Talker:
    """Backbone and depth decoder in `dtype` on `device`; text embeddings stay on the host.

    Args:
        int8: the layers' matrices as int8 (kernels/quantized.py).
    """
    architecture = checkpoint.architecture
    with torch.device("meta"):
        talker = Talker(architecture.backbone, architecture.depth)
        talker = talker.to(dtype)
        if int8:
            talker.hold_layers_in_int8()
    talker = talker.to_empty(device=device)
    backbone, depth = talker.backbone, talker.depth
    with TensorReader(checkpoint.components["language_model"], device, progress) as read:
        embed = "model.embed_tokens.weight"
        talker.text_embeddings = read.rows(embed, 0, AUDIO_CODE_OFFSET, HOST)
        talker.code_embeddings.copy_(read.rows(embed, AUDIO_CODE_OFFSET, LAST_TOKEN))
        talker.head[:1].copy_(read.rows("lm_head.weight", AUDIO_END, AUDIO_END + 1))
        talker.head[1:].copy_(read.rows("lm_head.weight", AUDIO_CODE_OFFSET, LAST_TOKEN))
        for index, layer in enumerate(backbone.layers):
            name = f"model.layers.{index}."
            _fuse(layer.qkv, *(read(f"{name}self_attn.{part}_proj.weight") for part in "qkv"))
            _fuse(layer.out, read(f"{name}self_attn.o_proj.weight"))
            layer.q_norm.copy_(read(f"{name}self_attn.q_norm.weight"))
            layer.k_norm.copy_(read(f"{name}self_attn.k_norm.weight"))
            _fuse(layer.gate_up, read(f"{name}mlp.gate_proj.weight"), read(f"{name}mlp.up_proj.weight"))
            _fuse(layer.down, read(f"{name}mlp.down_proj.weight"))
            layer.attention_norm.copy_(read(f"{name}input_layernorm.weight"))
            layer.mlp_norm.copy_(read(f"{name}post_attention_layernorm.weight"))
        backbone.norm.copy_(read("model.norm.weight"))
    with TensorReader(checkpoint.components["rvq_depth_decoder"], device, progress) as read:
        depth.projection.copy_(read("projection.weight"))
        depth.positions.copy_(read("pos_embedding.weight"))
        depth.embeddings.copy_(read("audio_embeddings.weight"))
        for index, block in enumerate(depth.layers):
            name = f"layers.{index}."
            _fuse(block.qkv, *(read(f"{name}attn.to_{part}.weight") for part in "qkv"))
            _fuse(block.out, read(f"{name}attn.to_out.weight"))
            _fuse(block.gate_up, read(f"{name}gate_proj.weight"), read(f"{name}up_proj.weight"))
            _fuse(block.down, read(f"{name}down_proj.weight"))
            block.attention_norm.copy_(read(f"{name}input_layernorm.weight"))
            block.mlp_norm.copy_(read(f"{name}post_attention_layernorm.weight"))
        depth.norm.copy_(read("norm.weight"))
        for index, head in enumerate(depth.heads):
            head.copy_(read(f"audio_heads.{index}.weight"))
    return talker


def load_condition_encoder(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, progress: Progress = no_progress
) -> ConditionEncoder:
    """In the talker's dtype, whatever its stored one."""
    with torch.device("meta"):
        encoder = ConditionEncoder(checkpoint.architecture.condition)
    encoder = encoder.to(dtype).to_empty(device=device)
    with TensorReader(checkpoint.components["condition_encoder"], device, progress) as read:
        encoder.layer_weight_logits.copy_(read("layer_weight_logits"))
        encoder.layer_scale.copy_(read("layer_scale"))
        encoder.proj_weight.copy_(read("proj.weight"))
        encoder.proj_bias.copy_(read("proj.bias"))
    return encoder


def load_transformer(
    checkpoint: Checkpoint,
    device: torch.device,
    progress: Progress = no_progress,
    product: torch.dtype = torch.float32,
) -> FlowTransformer:
    """In float32, but for the blocks' matrices, which are in `product`: float16 is half the memory, and enough where
    every song has the precision fp16.
    """
    with torch.device("meta"):
        transformer = FlowTransformer(checkpoint.architecture.transformer).float()
        transformer.hold_matrices_in(product)
    transformer = transformer.to_empty(device=device)
    with TensorReader(checkpoint.components["transformer"], device, progress) as read:
        transformer.time_proj.copy_(read("time_proj.weight")[:, 0])
        transformer.time1.copy_(read("time_embed.linear_1.weight"))
        transformer.time1_bias.copy_(read("time_embed.linear_1.bias"))
        transformer.time2.copy_(read("time_embed.linear_2.weight"))
        transformer.time2_bias.copy_(read("time_embed.linear_2.bias"))
        channels = transformer.config.in_channels
        in_NJ = merged_weight(read("proj_in.weight", HOST), read("preprocess_conv.weight", HOST)[:, :, 0], after=False)
        transformer.latents_in.copy_(in_NJ[:, :channels])
        transformer.condition_in.copy_(in_NJ[:, 2 * channels :])  # the zeros' columns are between them
        for index, block in enumerate(transformer.blocks):
            name = f"transformer_blocks.{index}."
            block.norm1_weight.copy_(read(f"{name}norm1.weight"))
            block.norm1_bias.copy_(read(f"{name}norm1.bias"))
            block.norm2_weight.copy_(read(f"{name}norm2.weight"))
            block.norm2_bias.copy_(read(f"{name}norm2.bias"))
            _fuse(block.qkv, *(read(f"{name}attn.to_{part}.weight") for part in "qkv"))
            block.out.copy_(read(f"{name}attn.to_out.0.weight"))
            block.ff_in.copy_(read(f"{name}ff_in.weight"))
            block.ff_in_bias.copy_(read(f"{name}ff_in.bias"))
            block.ff_out.copy_(read(f"{name}ff_out.weight"))
            block.ff_out_bias.copy_(read(f"{name}ff_out.bias"))
        behind_CC = read("postprocess_conv.weight", HOST)[:, :, 0]
        transformer.velocity_out.copy_(merged_weight(read("proj_out.weight", HOST), behind_CC, after=True))
    return transformer


def load_vocoder(checkpoint: Checkpoint, device: torch.device, progress: Progress = no_progress) -> Vocoder:
    """In float32, weight norm folded."""
    with torch.device("meta"):
        vocoder = Vocoder(checkpoint.architecture.vocoder)
    vocoder = vocoder.float().to_empty(device=device)
    with TensorReader(checkpoint.components["vocoder"], device, progress) as read:

        def folded(name: str) -> torch.Tensor:
            return folded_weight(read(f"{name}.weight_g", HOST), read(f"{name}.weight_v", HOST))

        def fold(conv: Conv, name: str) -> None:
            conv.weight.copy_(folded(name))
            conv.bias.copy_(read(f"{name}.bias"))

        vocoder.dec_in_proj.weight.copy_(read("dec_in_proj.weight"))
        vocoder.dec_in_proj.bias.copy_(read("dec_in_proj.bias"))
        fold(vocoder.conv_in, "conv_in")
        for index, block in enumerate(vocoder.blocks):
            name = f"blocks.{index}."
            block.alpha.copy_(read(f"{name}snake1.alpha"))
            block.weight.copy_(folded(f"{name}conv_t1"))
            block.bias.copy_(read(f"{name}conv_t1.bias"))
            for number, unit in enumerate(block.units, start=1):
                unit.alpha1.copy_(read(f"{name}res_unit{number}.snake1.alpha"))
                unit.alpha2.copy_(read(f"{name}res_unit{number}.snake2.alpha"))
                fold(unit.conv1, f"{name}res_unit{number}.conv1")
                fold(unit.conv2, f"{name}res_unit{number}.conv2")
        vocoder.alpha_out.copy_(read("snake_out.alpha"))
        fold(vocoder.conv_out, "conv_out")
    return vocoder


def load_acoustic(
    checkpoint: Checkpoint,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress = no_progress,
    product: torch.dtype = torch.float32,
) -> AcousticModels:
    """The three acoustic networks: the condition encoder in the talker's `dtype`, the transformer's matrices in
    `product`.
    """
    return AcousticModels(
        load_condition_encoder(checkpoint, device, dtype, progress),
        load_transformer(checkpoint, device, progress, product),
        load_vocoder(checkpoint, device, progress),
    )


def merged_weight(weight: torch.Tensor, residual: torch.Tensor, after: bool) -> torch.Tensor:
    """One matrix for a product and a residual product `y = R x + x` before or after it: W (R + 1), or (R + 1) W.

    On the host, in float64 and rounded once, as `folded_weight`.
    """
    wide = residual.double()
    wide = wide + torch.eye(len(wide), dtype=wide.dtype)
    return (wide @ weight.double() if after else weight.double() @ wide).float()


def folded_weight(g: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Weight norm over dimension 0 folded into one weight: g v / |v| (Salimans & Kingma 2016); so the transposed
    convolutions too.

    Folded on the host, in float64 and rounded once: weights that are kept there and weights that were read onto a
    device are then the same, and so are the samples.
    """
    norm: torch.Tensor = torch.linalg.vector_norm(v.double(), dim=(1, 2), keepdim=True)
    return (v * (g / norm)).float()


def _fuse(target: Matrix, *parts: torch.Tensor) -> None:
    """Stack `parts` over dimension 0 into `target`."""
    start = 0
    for part in parts:
        if isinstance(target, Int8Matrix):
            target.set_rows(start, part)
        else:
            target[start : start + len(part)].copy_(part)
        start += len(part)
