"""The demo checkpoint: the same architecture in miniature, with random weights, made in the user's cache.

It exists to try every command without 28.5 GB. It makes noise, not music.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from music3_cli.checkpoint.headers import Buffer
from music3_cli.checkpoint.layout import Component
from music3_cli.checkpoint.random_weights import Spread, write_random_checkpoint
from music3_cli.checkpoint.record import write_record
from music3_cli.checkpoint.stock import read_files, table_of
from music3_cli.checkpoint.workers import finish
from music3_cli.errors import OutputError
from music3_cli.song.prompt import SPECIAL_TOKENS

DEMO_REVISION = 4
"""Raised with every change of the demo's content; a test pins the content's digest to it."""

DEMO_FRAMES = 300
"""The demo's own ceiling, 12 s: its songs never end by themselves."""

CONFIGS: dict[str, dict[str, Any]] = {
    "language_model": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "dtype": "bfloat16",
        "head_dim": 32,
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 128,
        "max_position_embeddings": 10240,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
        "tie_word_embeddings": False,
        "vocab_size": 168192,
    },
    "rvq_depth_decoder": {
        "_class_name": "MiniMaxMusic3RVQDepthDecoder",
        "audio_vocab_size": 1024,
        "hidden_size": 64,
        "intermediate_size": 96,
        "max_position_embeddings": 16,
        "num_attention_heads": 4,
        "num_codebooks": 8,
        "num_layers": 2,
    },
    "condition_encoder": {
        "_class_name": "MiniMaxMusic3ConditionEncoder",
        "condition_hidden_dim": 64,
        "num_condition_layers": 8,
        "out_dim": 32,
        "input_sampling_rate": 24000,
        "input_hop_length": 960,
        "output_sampling_rate": 44100,
        "output_hop_length": 512,
    },
    "transformer": {
        "_class_name": "MiniMaxMusic3Transformer1DModel",
        "in_channels": 128,
        "condition_dim": 32,
        "num_layers": 2,
        "num_attention_heads": 2,
        "attention_head_dim": 32,
        "ff_inner_dim": 96,
        "rotary_dim": 16,
        "fourier_embedding_dim": 32,
    },
    "vocoder": {
        "_class_name": "MiniMaxMusic3Vocoder",
        "latent_channels": 128,
        "decoder_input_dim": 64,
        "decoder_hidden_dim": 64,
        "upsampling_ratios": [8, 8, 4, 2],
        "sampling_rate": 44100,
    },
}


def cache_folder() -> Path:
    """Where music3 keeps what it can make again: `MUSIC3_CACHE`, or the platform's cache folder."""
    return Path(os.environ.get("MUSIC3_CACHE") or platformdirs.user_cache_path("music3"))


def demo_folder() -> Path:
    return cache_folder() / f"demo-{DEMO_REVISION}"


def demo_checkpoint(is_whole: Callable[[Path], bool]) -> Path:
    """The demo checkpoint's folder, made if it is not there or `is_whole` finds it damaged.

    Raises:
        OutputError: the cache is not writable.
    """
    folder = demo_folder()
    if folder.exists() and is_whole(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".demo-") as work:
            made = Path(work) / "demo"
            write_demo(made)
            examined = finish(read_files(made, (), "verify"))
            write_record(made, table_of(examined, "demo", str(DEMO_REVISION)), "demo")
            if folder.exists() and not is_whole(folder):
                shutil.rmtree(folder)
            # Another process may have been faster; its folder has the same content.
            if not folder.exists():
                made.rename(folder)
    except OSError as error:
        if folder.exists() and is_whole(folder):
            return folder
        raise OutputError(
            f"{folder.parent}: the demo checkpoint cannot be written there ({error.strerror or error})",
            hint="Set MUSIC3_CACHE to a folder with 60 MB free.",
        ) from None
    return folder


def write_demo(dest: Path) -> None:
    """Write the demo checkpoint into the new folder `dest`; the same bytes everywhere."""
    root = {"model_type": "minimax-music3", "demo": True, "default_max_frames": DEMO_FRAMES}
    write_random_checkpoint(dest, CONFIGS, _fill, root)
    write_tokenizer(dest / "tokenizer")


def _fill(component: Component, name: str, shape: tuple[int, ...], spread: Spread) -> Buffer:
    """Random weights from a hash of the tensor's name: no generator whose stream could change with a version."""
    import numpy as np

    count = int(np.prod(shape))
    stream = hashlib.shake_128(f"music3 demo {component.name} {name}".encode()).digest(count)
    levels = np.arange(256, dtype=np.float32) - 127.5  # uniform on 256 levels: deviation 73.9
    table = np.float32(spread.centre) + levels * np.float32(spread.deviation / 73.9)
    weights = table[np.frombuffer(stream, np.uint8)].reshape(shape)
    if spread.level:
        # In float64, whose last bits, which may depend on the order of a sum, do not survive the rounding.
        weights = (weights - weights.mean(-1, keepdims=True, dtype=np.float64)).astype(np.float32)
    if spread.zero_row is not None:
        weights[spread.zero_row] = 0
    if component.dtype == "BF16":
        return bytes((weights.view(np.uint32) >> 16).astype("<u2").tobytes())
    return bytes(weights.astype("<f4").tobytes())


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE of the released kind: the real special ids, 256 bytes and a few common English words."""
    folder.mkdir(parents=True)
    pairs, vocab = _word_merges(_byte_characters())
    special = {"<|endoftext|>": 151643, **SPECIAL_TOKENS}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **flags} for token, number in special.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": _SPLIT}, "behavior": "Isolated", "invert": False},
                byte_level,
            ],
        },
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {**vocab, **special},
            "merges": [list(pair) for pair in pairs],
        },
    }
    config = {
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}\n", encoding="utf-8")


# How the Qwen tokenizer family cuts text before merging: contractions, words with one leading mark, single digits,
# runs of marks, line ends, blanks.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_characters() -> list[str]:
    """One printable character for each byte, as byte-level BPE vocabularies spell them (GPT-2's convention):
    printable latin-1 characters stand for themselves, the others move up to U+0100 and on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = (chr(0x100 + i) for i in range(256))
    return [chr(byte) if byte in printable else next(moved) for byte in range(256)]


def _word_merges(characters: list[str]) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Merges that build each word from its front, and the vocabulary that they make."""
    vocab = {character: number for number, character in enumerate(characters)}
    pairs: list[tuple[str, str]] = []
    blank = characters[ord(" ")]
    for word in [blank + word for word in _WORDS.split()] + _WORDS.split():
        for end in range(1, len(word)):
            if word[: end + 1] not in vocab:
                vocab[word[: end + 1]] = len(vocab)
                pairs.append((word[:end], word[end]))
    return pairs, vocab


_WORDS = """
the and with that this from into over through under while each then where when like as at by in is it of on or to up
a an are be for out all you your my me we our love night day light heart time life home way away down back again never
dream world sky rain fire sun moon star river road hand eyes song sing feel know come take hold wait stay run fall rise
verse chorus bridge intro outro instrumental solo pre post section
male female vocal voice vocals harmony harmonies lead backing warm bright soft clear breathy gentle strong deep
guitar piano bass drums drum strings synth pad pads organ brass percussion acoustic electric kick snare cymbals
tempo key major minor time signature beat beats groove rhythm melody chord chords progression
production mix stereo reverb delay compression space texture dynamic dynamics energy mood emotional
global metadata details arrangement genre style pop rock folk jazz soul opens builds enters returns drops
slow fast steady gradual quiet loud full wide close
"""
