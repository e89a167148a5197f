"""Ways to damage a checkpoint folder, each a function that does it to a copy."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[Path], object]

LM = "language_model"
SHARD_1, SHARD_2, SHARD_4 = (f"{LM}/model-0000{n}-of-00004.safetensors" for n in (1, 2, 4))
LM_INDEX = f"{LM}/model.safetensors.index.json"
SINGLE = "diffusion_pytorch_model.safetensors"
CONDITION, DEPTH, VOCODER = f"condition_encoder/{SINGLE}", f"rvq_depth_decoder/{SINGLE}", f"vocoder/{SINGLE}"
TOKENIZER = "tokenizer/tokenizer.json"


def linked_copy(source: Path, dest: Path) -> Path:
    """A copy whose files are hard links; every change below replaces the file."""
    shutil.copytree(source, dest, copy_function=os.link)
    return dest


def replace(file: Path, content: bytes) -> None:
    file.unlink(missing_ok=True)
    file.write_bytes(content)


def delete(path: str) -> Change:
    def change(root: Path) -> None:
        shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()

    return change


def add(path: str, content: bytes = b"left over") -> Change:
    return lambda root: (root / path).write_bytes(content)


def cut(path: str, keep: int) -> Change:
    """Keep the first bytes, or all but the last for a negative number."""
    return lambda root: replace(root / path, (root / path).read_bytes()[:keep])


def append(path: str, content: bytes) -> Change:
    return lambda root: replace(root / path, (root / path).read_bytes() + content)


def flip(path: str, place: int) -> Change:
    def change(root: Path) -> None:
        content = bytearray((root / path).read_bytes())
        content[place] ^= 0x10
        replace(root / path, bytes(content))

    return change


def swap(one: str, two: str) -> Change:
    def change(root: Path) -> None:
        (root / one).rename(root / "third")
        (root / two).rename(root / one)
        (root / "third").rename(root / two)

    return change


def edit(path: str, **fields: Any) -> Change:
    """Set fields of a JSON file; `...` deletes one."""

    def change(root: Path) -> None:
        data = json.loads((root / path).read_bytes())
        for name, value in fields.items():
            if value is ...:
                del data[name]
            else:
                data[name] = value
        replace(root / path, json.dumps(data, indent=2).encode())

    return change


def edit_header(path: str, change_entries: Callable[[dict[str, Any]], object]) -> Change:
    """Change a weight file's header and leave its weights."""

    def change(root: Path) -> None:
        content = (root / path).read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        entries = json.loads(content[8 : 8 + length])
        raw = change_entries(entries)
        if not isinstance(raw, bytes):
            raw = json.dumps(entries, separators=(",", ":")).encode()
        raw = raw.ljust(length)
        replace(root / path, struct.pack("<Q", len(raw)) + raw + content[8 + length :])

    return change


def header_length(path: str, length: int) -> Change:
    return lambda root: replace(root / path, struct.pack("<Q", length) + (root / path).read_bytes()[8:])


def edit_map(path: str, name: str, shard: str) -> Change:
    def change(root: Path) -> None:
        data = json.loads((root / path).read_bytes())
        data["weight_map"][name] = shard
        replace(root / path, json.dumps(data, indent=2).encode())

    return change


def write_values(path: str, tensor: str, value: float) -> Change:
    """Overwrite a float32 tensor's first value."""

    def change(root: Path) -> None:
        content = bytearray((root / path).read_bytes())
        length = struct.unpack("<Q", content[:8])[0]
        start = json.loads(content[8 : 8 + length])[tensor]["data_offsets"][0] + 8 + length
        content[start : start + 4] = struct.pack("<f", value)
        replace(root / path, bytes(content))

    return change


def recorded(change: Change) -> Change:
    """The same, with a completion record that says it should be so: damage from before the record."""

    def both(root: Path) -> None:
        from music3_cli.checkpoint.record import RECORD_FILE, write_record
        from music3_cli.checkpoint.stock import read_files, table_of
        from music3_cli.checkpoint.workers import finish

        change(root)
        (root / RECORD_FILE).unlink()
        write_record(root, table_of(finish(read_files(root, (), "verify")), "demo", "1"), "demo")

    return both


def move_token(root: Path) -> None:
    data = json.loads((root / TOKENIZER).read_bytes())
    for token in data["added_tokens"]:
        if token["content"] == "<|audio_end|>":
            token["id"] = 151999
    data["model"]["vocab"]["<|audio_end|>"] = 151999
    replace(root / TOKENIZER, json.dumps(data).encode())


def drop_tensor(entries: dict[str, Any]) -> None:
    """Rename a tensor, so that one is missing and one too many."""
    entries["layers.0.attn.to_x.weight"] = entries.pop("layers.0.attn.to_q.weight")


def first(entries: dict[str, Any], **fields: Any) -> None:
    name = next(name for name in entries if name != "__metadata__")
    entries[name].update(fields)


def shift_offsets(amount: int) -> Callable[[dict[str, Any]], None]:
    """Move the second tensor's beginning, and its end with it."""

    def change(entries: dict[str, Any]) -> None:
        names = sorted((n for n in entries if n != "__metadata__"), key=lambda n: entries[n]["data_offsets"])
        start, stop = entries[names[1]]["data_offsets"]
        entries[names[1]]["data_offsets"] = [start + amount, stop + amount]

    return change


def twice(entries: dict[str, Any]) -> bytes:
    name = next(name for name in entries if name != "__metadata__")
    entries.pop("__metadata__")
    raw = json.dumps(entries, separators=(",", ":")).encode()
    return raw[:-1] + b"," + json.dumps({name: entries[name]}, separators=(",", ":")).encode()[1:]


def make_native(root: Path) -> None:
    for folder in (LM, "rvq_depth_decoder", "transformer", "vocoder", "condition_encoder"):
        shutil.rmtree(root / folder)
    (root / "qwen_7B").mkdir()
    (root / "dav.pth").write_bytes(b"native")


def pipe(path: str) -> Change:
    def change(root: Path) -> None:
        (root / path).unlink()
        os.mkfifo(root / path)

    return change
