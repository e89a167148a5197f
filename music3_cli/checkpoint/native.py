"""The native packaging: where its files lie, and which of its tensors become which of the modular packaging's.

Spec section 7. Names only; `convert.py` moves the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from music3_cli.checkpoint.findings import Fault, Finding
from music3_cli.checkpoint.headers import Header, read_header

TALKER_FOLDER = Path("qwen_7B", "qwen_7B")
TOKENIZER_FOLDER = Path("qwen_7B", "qwen3-8B-tokenizer-music")
FLOW_FILE, VOCODER_FILE = "flowmatching_vae.pth", "dav.pth"

FILE_OF = {"transformer": FLOW_FILE, "condition_encoder": FLOW_FILE, "vocoder": VOCODER_FILE}
"""Component -> the torch file that holds it; the other two lie in the talker's shards."""

DEPTH_PREFIXES = ("model.audio_decoder.", "model.audio_extra_embedding.")

NATIVE_AGAIN = "Fetch the native files again, or use `music3 download`: the modular folders hold the same weights."


@dataclass(frozen=True)
class Source:
    """Where a modular tensor comes from: a native tensor, or one of `parts` equal blocks of its rows."""

    name: str
    part: int = 0
    parts: int = 1


def source_of(component: str, name: str) -> Source:
    """The native tensor behind a modular one.

    Raises:
        KeyError: no such component.
    """
    return {
        "language_model": Source,
        "rvq_depth_decoder": _depth,
        "condition_encoder": _condition,
        "transformer": _transformer,
        "vocoder": _vocoder,
    }[component](name)


def is_depth_tensor(name: str) -> bool:
    """Whether a tensor of the talker's shards belongs to the depth decoder."""
    return name.startswith(DEPTH_PREFIXES)


def _depth(name: str) -> Source:
    if name == "audio_embeddings.weight":
        return Source("model.audio_extra_embedding.weight")
    name = re.sub(r"^(layers\.\d+\.)attn\.to_([qkv])\.", r"\1self_attn.\2_proj.", name)
    name = re.sub(r"^(layers\.\d+\.)attn\.to_out\.", r"\1self_attn.o_proj.", name)
    name = re.sub(r"^(layers\.\d+\.)((?:gate|up|down)_proj\.)", r"\1mlp.\2", name)
    return Source(f"model.audio_decoder.{name}")


def _condition(name: str) -> Source:
    names = {"layer_weight_logits": "cond_layer_logits", "layer_scale": "cond_layer_scale"}
    return Source(names.get(name) or name.replace("proj.", "latent_conditioners.0.", 1))


_FLOW_NAMES = {
    "time_proj.weight": "timestep_features.weight",
    "time_embed.linear_1.": "to_timestep_embed.0.",
    "time_embed.linear_2.": "to_timestep_embed.2.",
    "proj_in.": "transformer.project_in.",
    "proj_out.": "transformer.project_out.",
}
_FLOW_BLOCK = {
    "norm1.weight": "pre_norm.gamma",
    "norm1.bias": "pre_norm.beta",
    "norm2.weight": "ff_norm.gamma",
    "norm2.bias": "ff_norm.beta",
    "attn.to_out.0.weight": "self_attn.to_out.weight",
    "ff_in.weight": "ff.ff.0.proj.weight",
    "ff_in.bias": "ff.ff.0.proj.bias",
    "ff_out.weight": "ff.ff.2.weight",
    "ff_out.bias": "ff.ff.2.bias",
}


def _transformer(name: str) -> Source:
    prefix = "diffusion_transformer."
    if match := re.fullmatch(r"transformer_blocks\.(\d+)\.(.+)", name):
        layer, rest = f"{prefix}transformer.layers.{match[1]}.", match[2]
        if fused := re.fullmatch(r"attn\.to_([qkv])\.weight", rest):
            return Source(f"{layer}self_attn.to_qkv.weight", "qkv".index(fused[1]), 3)
        return Source(layer + _FLOW_BLOCK.get(rest, rest))
    for modular, native in _FLOW_NAMES.items():
        if name.startswith(modular):
            return Source(prefix + native + name.removeprefix(modular))
    return Source(prefix + name)


_UNIT = {"snake1": 0, "conv1": 1, "snake2": 2, "conv2": 3}


def _vocoder(name: str) -> Source:
    if name.startswith("dec_in_proj."):
        return Source(name)
    for modular, number in (("conv_in", 0), ("snake_out", 5), ("conv_out", 6)):
        if name.startswith(f"{modular}."):
            return Source(f"decoder.model.{number}.{name.removeprefix(f'{modular}.')}")
    match = re.fullmatch(r"blocks\.(\d+)\.(.+)", name)
    if match is None:
        return Source(name)
    block, rest = f"decoder.model.{int(match[1]) + 1}.block.", match[2]
    if unit := re.fullmatch(r"res_unit(\d)\.(\w+)\.(.+)", rest):
        return Source(f"{block}{int(unit[1]) + 1}.block.{_UNIT[unit[2]]}.{unit[3]}")
    first, _, leaf = rest.partition(".")
    return Source(f"{block}{0 if first == 'snake1' else 1}.{leaf}")


@dataclass(frozen=True)
class NativeFiles:
    """A native folder's files.

    Attributes:
        shards: headers of the talker's shards.
        pickles: torch file -> size in bytes; they are not opened.
    """

    root: Path
    shards: tuple[Header, ...]
    pickles: Mapping[str, int]

    @property
    def tokenizer(self) -> Path:
        return self.root / TOKENIZER_FOLDER

    def talker_tensors(self) -> dict[str, Header]:
        """Tensor name -> its shard."""
        return {name: header for header in self.shards for name in header.tensors}


def find_native(root: Path) -> NativeFiles:
    """The files of a native folder; the shards with or without an index.

    Raises:
        Fault, ManyErrors: no such folder, nothing of the packaging in it, or shards that are damaged or missing.
    """
    from music3_cli.checkpoint.checks import native_marks, read_index

    if not root.is_dir():
        raise Fault(Finding("packaging", root, "no such folder", "the native packaging", NATIVE_AGAIN))
    if not native_marks(root):
        what = "nothing of the native packaging is here"
        raise Fault(Finding("packaging", root, what, f"{TALKER_FOLDER}, {FLOW_FILE} and {VOCODER_FILE}", NATIVE_AGAIN))
    folder = root / TALKER_FOLDER
    indices = sorted(folder.glob("*.safetensors.index.json"))
    names = set(read_index(indices[0])) if indices else {file.name for file in folder.glob("*.safetensors")}
    pickles = {name: (root / name).stat().st_size for name in (FLOW_FILE, VOCODER_FILE) if (root / name).is_file()}
    return NativeFiles(root, tuple(read_header(folder / name) for name in sorted(names)), pickles)


def check_complete(files: NativeFiles) -> None:
    """Raise `Fault` for what a conversion needs and is not there."""
    needed = [files.root / name for name in (FLOW_FILE, VOCODER_FILE)]
    needed += [files.tokenizer / "tokenizer.json"]
    if not files.shards:
        raise Fault(
            Finding(
                "missing", files.root / TALKER_FOLDER, "no *.safetensors in it", "the talker's shards", NATIVE_AGAIN
            )
        )
    for file in needed:
        if not file.is_file():
            raise Fault(Finding("missing", file, "missing", hint=NATIVE_AGAIN))


def mismatch(file: Path, found: str, expected: str) -> Finding:
    """A native tensor that is not what the configs imply."""
    hint = "If the weights are of another size, name a modular folder with the right configs with --configs."
    return Finding("tensor", file, found, expected, hint)
