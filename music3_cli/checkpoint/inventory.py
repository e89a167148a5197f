"""Opening a checkpoint folder: its configs, headers and the cheap check that every run makes. Reads no weights.

Never the network: the modular index names a hub repository for each component and is not followed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from music3_cli.checkpoint.headers import Header, TensorEntry, read_header
from music3_cli.checkpoint.layout import COMPONENTS, NATIVE_MARKS, OTHER_FILES, Architecture, Component, ComponentConfig
from music3_cli.errors import CheckpointError, Music3Error, raise_all

_FETCH_AGAIN = "Fetch the modular folders of MiniMaxAI/MiniMax-Music3 again."
_SAMPLES, _SAMPLE_BYTES = 64, 4096


@dataclass(frozen=True)
class ComponentFiles:
    """One component's config and weight files.

    Attributes:
        config: parsed.
        headers: one a weight file, in name order.
    """

    component: Component
    config: ComponentConfig
    headers: tuple[Header, ...]

    @cached_property
    def tensors(self) -> dict[str, tuple[Header, TensorEntry]]:
        """Tensor name -> the file that holds it and its entry."""
        return {name: (header, entry) for header in self.headers for name, entry in header.tensors.items()}

    @property
    def file_bytes(self) -> int:
        return sum(header.file_bytes for header in self.headers)


@dataclass(frozen=True)
class Checkpoint:
    """A folder that passed the cheap check.

    Attributes:
        name: as the user called it.
        root: the folder.
        default_max_frames: a demo checkpoint's own ceiling, or None.
    """

    name: str
    root: Path
    architecture: Architecture
    components: Mapping[str, ComponentFiles]
    is_demo: bool = False
    default_max_frames: int | None = None

    @property
    def tokenizer_file(self) -> Path:
        return self.root / "tokenizer" / "tokenizer.json"

    @property
    def weight_bytes(self) -> int:
        return sum(files.file_bytes for files in self.components.values())

    @cached_property
    def digest(self) -> str:
        """Identity of the weights for sidecars and keys: sha256 over configs, tokenizer, headers, sizes and 64
        evenly spaced 4 KiB samples of each weight file. Tells checkpoints apart in milliseconds; it is no proof
        against a single flipped bit.
        """
        total = hashlib.sha256()
        for file in (*(self.root / name / "config.json" for name in COMPONENTS), self.tokenizer_file):
            total.update(file.read_bytes())
        for files in self.components.values():
            for header in files.headers:
                total.update(f"{header.digest} {header.file_bytes}\n".encode())
                with header.path.open("rb") as stream:
                    for i in range(_SAMPLES):
                        stream.seek(max(0, header.file_bytes - _SAMPLE_BYTES) * i // (_SAMPLES - 1))
                        total.update(stream.read(_SAMPLE_BYTES))
        return total.hexdigest()


def open_checkpoint(root: Path, name: str = "") -> Checkpoint:
    """Open a folder and make the cheap check: every component there, headers, names, shapes and sizes right.

    Raises:
        CheckpointError, ManyErrors: everything that was found, each with file, expectation and next step.
    """
    name = name or str(root)
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "no such folder"
        raise CheckpointError(f"{root}: {what}; a checkpoint folder was expected", hint=_FETCH_AGAIN)
    missing = [folder for folder in COMPONENTS if not (root / folder).is_dir()]
    native = [mark for mark in NATIVE_MARKS if (root / mark).exists()]
    if missing and native:
        raise CheckpointError(
            f"{root}: this is the native packaging ({', '.join(native)}); the modular packaging with the folders "
            f"{', '.join(COMPONENTS)} was expected",
            hint="Fetch the modular folders of the same repository: they hold the same weights.",
        )
    if len(missing) == len(COMPONENTS):
        raise CheckpointError(f"{root}: none of the folders {', '.join(COMPONENTS)} is here", hint=_FETCH_AGAIN)

    errors: list[Music3Error] = []
    components: dict[str, ComponentFiles] = {}
    for component in COMPONENTS.values():
        try:
            components[component.name] = _open_component(root / component.name, component)
        except Music3Error as error:
            errors.append(error)
    for file in OTHER_FILES:
        if not (root / file).is_file():
            errors.append(CheckpointError(f"{root / file}: missing", hint=_FETCH_AGAIN))
    raise_all(errors)
    architecture = Architecture.from_configs({key: files.config for key, files in components.items()})
    raise_all([CheckpointError(f"{root}: the configs disagree: {text}") for text in architecture.disagreements()])
    marker = _read_json(root / "config.json") if (root / "config.json").is_file() else {}
    demo = bool(marker.get("demo"))
    default = marker.get("default_max_frames")
    return Checkpoint(
        name,
        root,
        architecture,
        components,
        demo,
        default if demo and isinstance(default, int) and default > 0 else None,
    )


def _open_component(folder: Path, component: Component) -> ComponentFiles:
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: component missing", hint=_FETCH_AGAIN)
    config_file = folder / "config.json"
    config = component.config.from_json(_read_json(config_file), str(config_file))
    index_file = folder / component.index_file
    if index_file.is_file():
        headers = _read_shards(folder, index_file)
    else:
        headers = (read_header(folder / component.single_file),)
    files = ComponentFiles(component, config, headers)
    raise_all(_tensor_errors(folder, files))
    return files


def _read_shards(folder: Path, index_file: Path) -> tuple[Header, ...]:
    weight_map = _read_json(index_file).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(v, str) for v in weight_map.values()):
        raise CheckpointError(f"{index_file}: weight_map is missing; tensor names with their shards were expected")
    shards = sorted(set(weight_map.values()))
    for shard in shards:
        # A shard is a file of this folder: a path could make the loader read anything on the disk.
        if Path(shard).name != shard or "\\" in shard or not shard.endswith(".safetensors"):
            raise CheckpointError(f"{index_file}: shard {shard!r} is not a plain file name in this folder")
    headers = tuple(read_header(folder / shard) for shard in shards)
    for header in headers:
        listed = {name for name, shard in weight_map.items() if shard == header.path.name}
        if wrong := sorted(listed ^ set(header.tensors)):
            where = "is listed but not in it" if wrong[0] in listed else "is in it but not listed"
            raise CheckpointError(
                f"{header.path}: does not match {index_file.name}: tensor {wrong[0]} {where} ({len(wrong)} in all)",
                hint="Shards of another revision, or two shards swapped: fetch this component again.",
            )
    return headers


def _tensor_errors(folder: Path, files: ComponentFiles) -> list[Music3Error]:
    """Names and shapes against what the config implies."""
    expected = files.config.shapes()
    found = files.tensors
    errors: list[Music3Error] = []

    def some(names: list[str]) -> str:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    if missing := sorted(set(expected) - set(found)):
        errors.append(CheckpointError(f"{folder}: tensors missing: {some(missing)}", hint=_FETCH_AGAIN))
    if extra := sorted(set(found) - set(expected)):
        errors.append(CheckpointError(f"{folder}: tensors that do not belong there: {some(extra)}", hint=_FETCH_AGAIN))
    for name in sorted(set(expected) & set(found)):
        header, entry = found[name]
        if entry.shape != expected[name]:
            errors.append(
                CheckpointError(
                    f"{header.path}: tensor {name} has shape {list(entry.shape)}, {list(expected[name])} was expected",
                    hint="The config and the weights are of different models: fetch this component again.",
                )
            )
        elif entry.dtype not in ("BF16", "F16", "F32"):
            errors.append(
                CheckpointError(f"{header.path}: tensor {name} is {entry.dtype}; a floating dtype was expected")
            )
    return errors


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{file}: missing", hint=_FETCH_AGAIN) from None
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{file}: not valid JSON", hint=_FETCH_AGAIN) from None
    if not isinstance(data, dict):
        raise CheckpointError(f"{file}: a JSON object was expected", hint=_FETCH_AGAIN)
    return data
