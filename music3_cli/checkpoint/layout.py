"""What a modular MiniMax-Music3 checkpoint consists of: components, their configs, and the tensors these imply.

Pure arithmetic over configs; reads no weights and imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from music3_cli.checkpoint.findings import Fault, Finding, faults
from music3_cli.errors import raise_all

Shapes = dict[str, tuple[int, ...]]
C = TypeVar("C", bound="ComponentConfig")

AUDIO_CODE_OFFSET = 151675
"""Token id of semantic code 0."""
SEMANTIC_CODES = 16384
AUDIO_END = 151670
LAST_TOKEN = AUDIO_CODE_OFFSET + SEMANTIC_CODES


_LIST = "tuple[int, ...]"
_MOST, _MOST_LAYERS, _MOST_ITEMS = 2**31, 1024, 16
"""Far over every released value: a config cannot make us count up to it for ever."""


def _fits(value: object, name: str, kind: str) -> bool:
    items = value if isinstance(value, list) else [value]
    numbers = (int, float) if kind == "float" else (int,)
    most = _MOST_LAYERS if name.endswith(("layers", "codebooks")) else _MOST
    return 0 < len(items) <= _MOST_ITEMS and all(
        isinstance(item, numbers) and not isinstance(item, bool) and 0 < item <= most for item in items
    )


def _expected_value(name: str, kind: str) -> str:
    if kind == _LIST:
        return "a list of positive whole numbers"
    if name.endswith(("layers", "codebooks")):
        return f"a whole number from 1 to {_MOST_LAYERS}"
    return "a positive number" if kind == "float" else "a positive whole number"


@dataclass(frozen=True)
class ComponentConfig:
    """Base of the five network configs. Field names are those of the released config files."""

    @classmethod
    def from_json(cls: type[C], data: Mapping[str, Any], file: Path) -> C:
        """Read the fields that matter.

        Raises:
            Fault, ManyErrors: fields are missing or are not positive numbers (or lists of them).
        """
        values: dict[str, Any] = {}
        wrong = []
        for field in fields(cls):
            if field.name not in data:
                wrong.append(Finding("config", file, f"field {field.name} is missing", "a config of MiniMax-Music3"))
                continue
            value = data[field.name]
            listed = isinstance(value, list)
            expected = _expected_value(field.name, str(field.type))
            if listed != (field.type == _LIST) or not _fits(value, field.name, str(field.type)):
                wrong.append(Finding("config", file, f"{field.name} is {str(value)[:60]}", expected))
            values[field.name] = tuple(value) if listed else value
        raise_all(faults(wrong))
        return cls(**values)

    def shapes(self) -> Shapes:
        """Every tensor's name and shape that this config implies."""
        raise NotImplementedError


@dataclass(frozen=True)
class BackboneConfig(ComponentConfig):
    """The talker's Qwen3 backbone, component `language_model`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any], file: Path) -> BackboneConfig:
        rope = data.get("rope_parameters") or {}
        rope = rope if isinstance(rope, dict) else {}
        merged = {**data, "rope_theta": data.get("rope_theta", rope.get("rope_theta"))}
        if rope.get("rope_type", "default") != "default" or data.get("tie_word_embeddings", False):
            raise Fault(Finding("config", file, "scaled rope or tied embeddings", "neither, as in MiniMax-Music3"))
        return super().from_json(merged, file)

    @property
    def query_size(self) -> int:
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_key_value_heads * self.head_dim

    def shapes(self) -> Shapes:
        hidden, inner = self.hidden_size, self.intermediate_size
        shapes: Shapes = {"model.embed_tokens.weight": (self.vocab_size, hidden)}
        for i in range(self.num_hidden_layers):
            layer = f"model.layers.{i}."
            shapes |= {
                f"{layer}self_attn.q_proj.weight": (self.query_size, hidden),
                f"{layer}self_attn.k_proj.weight": (self.kv_size, hidden),
                f"{layer}self_attn.v_proj.weight": (self.kv_size, hidden),
                f"{layer}self_attn.o_proj.weight": (hidden, self.query_size),
                f"{layer}self_attn.q_norm.weight": (self.head_dim,),
                f"{layer}self_attn.k_norm.weight": (self.head_dim,),
                f"{layer}mlp.gate_proj.weight": (inner, hidden),
                f"{layer}mlp.up_proj.weight": (inner, hidden),
                f"{layer}mlp.down_proj.weight": (hidden, inner),
                f"{layer}input_layernorm.weight": (hidden,),
                f"{layer}post_attention_layernorm.weight": (hidden,),
            }
        return shapes | {"model.norm.weight": (hidden,), "lm_head.weight": (self.vocab_size, hidden)}


@dataclass(frozen=True)
class DepthConfig(ComponentConfig):
    """The talker's RVQ depth decoder, component `rvq_depth_decoder`."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_attention_heads: int
    audio_vocab_size: int
    num_codebooks: int
    max_position_embeddings: int

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    def shapes(self) -> Shapes:
        hidden, inner = self.hidden_size, self.intermediate_size
        residual = self.num_codebooks - 1
        shapes: Shapes = {
            "audio_embeddings.weight": (residual * self.audio_vocab_size, hidden),
            "projection.weight": (hidden, hidden),
            "pos_embedding.weight": (self.max_position_embeddings, hidden),
        }
        for i in range(self.num_layers):
            layer = f"layers.{i}."
            shapes |= {f"{layer}attn.to_{part}.weight": (hidden, hidden) for part in ("q", "k", "v", "out")}
            shapes |= {
                f"{layer}input_layernorm.weight": (hidden,),
                f"{layer}post_attention_layernorm.weight": (hidden,),
                f"{layer}gate_proj.weight": (inner, hidden),
                f"{layer}up_proj.weight": (inner, hidden),
                f"{layer}down_proj.weight": (hidden, inner),
            }
        shapes["norm.weight"] = (hidden,)
        return shapes | {f"audio_heads.{i}.weight": (self.audio_vocab_size, hidden) for i in range(residual)}


@dataclass(frozen=True)
class ConditionConfig(ComponentConfig):
    """Component `condition_encoder`: frame hiddens to the latent grid."""

    condition_hidden_dim: int
    num_condition_layers: int
    out_dim: int
    input_sampling_rate: int
    input_hop_length: int
    output_sampling_rate: int
    output_hop_length: int

    def shapes(self) -> Shapes:
        return {
            "layer_weight_logits": (self.num_condition_layers,),
            "layer_scale": (1,),
            "proj.weight": (self.out_dim, self.condition_hidden_dim, 3),
            "proj.bias": (self.out_dim,),
        }

    def latents(self, frames: int) -> int:
        """Latents that `frames` of one window become, spec section 4."""
        # The reference multiplies and divides in this order in float; the truncation depends on it.
        ratio = frames * self.output_sampling_rate / self.input_sampling_rate * self.input_hop_length
        return max(1, int(ratio / self.output_hop_length))


@dataclass(frozen=True)
class TransformerConfig(ComponentConfig):
    """Component `transformer`: the flow-matching transformer."""

    in_channels: int
    condition_dim: int
    num_layers: int
    num_attention_heads: int
    attention_head_dim: int
    ff_inner_dim: int
    rotary_dim: int
    fourier_embedding_dim: int

    @property
    def inner_dim(self) -> int:
        return self.num_attention_heads * self.attention_head_dim

    @property
    def joined_channels(self) -> int:
        """Input channels: latents, as many zeros, condition."""
        return 2 * self.in_channels + self.condition_dim

    def shapes(self) -> Shapes:
        inner, joined = self.inner_dim, self.joined_channels
        shapes: Shapes = {
            "time_proj.weight": (self.fourier_embedding_dim // 2, 1),
            "time_embed.linear_1.weight": (inner, self.fourier_embedding_dim),
            "time_embed.linear_1.bias": (inner,),
            "time_embed.linear_2.weight": (inner, inner),
            "time_embed.linear_2.bias": (inner,),
            "preprocess_conv.weight": (joined, joined, 1),
            "proj_in.weight": (inner, joined),
        }
        for i in range(self.num_layers):
            block = f"transformer_blocks.{i}."
            shapes |= {f"{block}{norm}.{part}": (inner,) for norm in ("norm1", "norm2") for part in ("weight", "bias")}
            shapes |= {f"{block}attn.{part}.weight": (inner, inner) for part in ("to_q", "to_k", "to_v", "to_out.0")}
            shapes |= {
                f"{block}ff_in.weight": (2 * self.ff_inner_dim, inner),
                f"{block}ff_in.bias": (2 * self.ff_inner_dim,),
                f"{block}ff_out.weight": (inner, self.ff_inner_dim),
                f"{block}ff_out.bias": (inner,),
            }
        return shapes | {
            "proj_out.weight": (self.in_channels, inner),
            "postprocess_conv.weight": (self.in_channels, self.in_channels, 1),
        }


@dataclass(frozen=True)
class VocoderConfig(ComponentConfig):
    """Component `vocoder`: latents to sound. Every `weight_g`, `weight_v` pair is a weight-normed weight."""

    latent_channels: int
    decoder_input_dim: int
    decoder_hidden_dim: int
    upsampling_ratios: tuple[int, ...]
    sampling_rate: int

    def channels(self, block: int) -> int:
        """Channels going into `block`; those of `block + 1` come out."""
        return int(self.decoder_hidden_dim // 2**block)

    def shapes(self) -> Shapes:
        def normed(name: str, rows: int, columns: int, kernel: int, bias: int) -> Shapes:
            return {
                f"{name}.bias": (bias,),
                f"{name}.weight_g": (rows, 1, 1),
                f"{name}.weight_v": (rows, columns, kernel),
            }

        source = self.decoder_input_dim
        shapes: Shapes = {
            "dec_in_proj.weight": (source, self.latent_channels // 2, 1),
            "dec_in_proj.bias": (source,),
            **normed("conv_in", self.decoder_hidden_dim, source, 7, self.decoder_hidden_dim),
        }
        for i, stride in enumerate(self.upsampling_ratios):
            block, wide, narrow = f"blocks.{i}.", self.channels(i), self.channels(i + 1)
            shapes[f"{block}snake1.alpha"] = (1, wide, 1)
            shapes |= normed(f"{block}conv_t1", wide, narrow, 2 * stride, narrow)
            for unit in (1, 2, 3):
                for part, kernel in ((1, 7), (2, 1)):
                    shapes[f"{block}res_unit{unit}.snake{part}.alpha"] = (1, narrow, 1)
                    shapes |= normed(f"{block}res_unit{unit}.conv{part}", narrow, narrow, kernel, narrow)
        last = self.channels(len(self.upsampling_ratios))
        return {**shapes, "snake_out.alpha": (1, last, 1), **normed("conv_out", 1, last, 7, 1)}


@dataclass(frozen=True)
class Component:
    """One weight-bearing component folder.

    Attributes:
        name: the folder.
        config: the config's class.
        stem: the weight file's name without shard number and ending.
        dtype: as released, in safetensors' spelling.
    """

    name: str
    config: type[ComponentConfig]
    stem: str
    dtype: str

    @property
    def kind(self) -> str:
        """The class that its config names."""
        return CLASSES[self.name][1]

    @property
    def single_file(self) -> str:
        return f"{self.stem}.safetensors"

    @property
    def index_file(self) -> str:
        return f"{self.stem}.safetensors.index.json"


COMPONENTS: Mapping[str, Component] = {
    component.name: component
    for component in (
        Component("language_model", BackboneConfig, "model", "BF16"),
        Component("rvq_depth_decoder", DepthConfig, "diffusion_pytorch_model", "BF16"),
        Component("condition_encoder", ConditionConfig, "diffusion_pytorch_model", "F32"),
        Component("transformer", TransformerConfig, "diffusion_pytorch_model", "F32"),
        Component("vocoder", VocoderConfig, "diffusion_pytorch_model", "F32"),
    )
}

CLASSES: Mapping[str, tuple[str, str]] = {
    "tokenizer": ("transformers", "Qwen2Tokenizer"),
    "language_model": ("transformers", "Qwen3ForCausalLM"),
    "rvq_depth_decoder": ("diffusers", "MiniMaxMusic3RVQDepthDecoder"),
    "condition_encoder": ("diffusers", "MiniMaxMusic3ConditionEncoder"),
    "transformer": ("diffusers", "MiniMaxMusic3Transformer1DModel"),
    "scheduler": ("diffusers", "FlowMatchEulerDiscreteScheduler"),
    "vocoder": ("diffusers", "MiniMaxMusic3Vocoder"),
}
"""Every component folder: library and class, as the modular index and the configs name them."""
PIPELINE_CLASS, BLOCKS_CLASS = "MiniMaxMusic3ModularPipeline", "MiniMaxMusic3Blocks"

OTHER_FILES = ("modular_model_index.json", "scheduler/scheduler_config.json", "tokenizer/tokenizer.json")
"""Files without weights that must be there too."""

NATIVE_MARKS = ("qwen_7B", "flowmatching_vae.pth", "dav.pth")
"""Any of these in a folder means the other packaging of the same weights."""
