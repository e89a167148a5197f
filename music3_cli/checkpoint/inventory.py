"""Opening a checkpoint folder: its configs, headers and the quick check that every run makes. Reads no weights.

Never the network: the modular index names a hub repository for each component and is not followed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from music3_cli.checkpoint import checks
from music3_cli.checkpoint.architecture import Architecture
from music3_cli.checkpoint.findings import Finding, collecting, faults, settled
from music3_cli.checkpoint.headers import Header, TensorEntry
from music3_cli.checkpoint.layout import COMPONENTS, OTHER_FILES, Component, ComponentConfig
from music3_cli.checkpoint.record import Record, read_record
from music3_cli.errors import CheckpointError, raise_all, system_errors_as

_SAMPLES, _SAMPLE_BYTES = 64, 4096


@dataclass(frozen=True)
class ComponentFiles:
    """One component's config and weight files.

    Attributes:
        config: parsed.
        headers: one a weight file, in name order.
        kind: the class that the config names.
    """

    component: Component
    config: ComponentConfig
    headers: tuple[Header, ...]
    kind: str = ""

    @cached_property
    def tensors(self) -> dict[str, tuple[Header, TensorEntry]]:
        """Tensor name -> the file that holds it and its entry."""
        return {name: (header, entry) for header in self.headers for name, entry in header.tensors.items()}

    @property
    def parameters(self) -> int:
        return sum(entry.parameters for _, entry in self.tensors.values())

    @property
    def file_bytes(self) -> int:
        return sum(header.file_bytes for header in self.headers)


@dataclass(frozen=True)
class Checkpoint:
    """A folder that passed the quick check.

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


@dataclass
class Survey:
    """What the quick check saw, be it whole or not.

    Attributes:
        components: those whose config and at least one header could be read.
        record: the completion record, if there is one.
        marker: the root's config.json.
    """

    root: Path
    components: dict[str, ComponentFiles] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    record: Record | None = None
    marker: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_demo(self) -> bool:
        return bool(self.marker.get("demo"))

    @property
    def is_unfinished(self) -> bool:
        return any(finding.kind == "unfinished" for finding in self.findings)

    @property
    def is_checkpoint(self) -> bool:
        """Whether there is anything of a modular checkpoint to look into."""
        return not any(finding.kind == "packaging" for finding in self.findings)


@system_errors_as(CheckpointError)
def survey(root: Path) -> Survey:
    """The quick check: every component there, headers, names, shapes and sizes right. Milliseconds; raises nothing
    about the folder's content.
    """
    seen = Survey(root)
    with collecting(seen.findings):
        checks.check_packaging(root)
        checks.check_finished(root)
    if not seen.is_checkpoint:
        return seen
    with collecting(seen.findings):
        seen.record = read_record(root)
    configs: dict[str, ComponentConfig] = {}
    kinds: dict[str, str] = {}
    for name, component in COMPONENTS.items():
        with collecting(seen.findings):
            configs[name], kinds[name] = checks.read_config(root, component)
    for name, component in COMPONENTS.items():
        if (root / name).is_dir():
            headers, wrong = checks.read_headers(root / name, component, configs)
            seen.findings.extend(wrong)
            if headers and name in configs:
                seen.components[name] = ComponentFiles(component, configs[name], headers, kinds[name])
    seen.findings.extend(
        Finding("missing", root / file, "missing") for file in OTHER_FILES if not (root / file).exists()
    )
    if len(configs) == len(COMPONENTS):
        architecture = Architecture.from_configs(configs)
        seen.findings.extend(
            Finding("config", root, f"the configs disagree: {text}") for text in architecture.disagreements()
        )
    if seen.record is not None:
        seen.findings = settled([*seen.findings, *checks.size_findings(root, seen.record.table)])
    if (root / "config.json").is_file():
        with collecting(seen.findings):
            seen.marker = checks.read_object(root / "config.json")
    if seen.is_unfinished:  # all else follows from that
        seen.findings = [finding for finding in seen.findings if finding.kind == "unfinished"]
    return seen


@system_errors_as(CheckpointError)
def open_checkpoint(root: Path, name: str = "") -> Checkpoint:
    """Open a folder that passes the quick check.

    Raises:
        CheckpointError, ManyErrors: everything that was found, each with file, expectation and next step.
    """
    seen = survey(root)
    raise_all(faults(seen.findings))
    default = seen.marker.get("default_max_frames")
    return Checkpoint(
        name or str(root),
        root,
        Architecture.from_configs({key: files.config for key, files in seen.components.items()}),
        seen.components,
        seen.is_demo,
        default if seen.is_demo and isinstance(default, int) and default > 0 else None,
    )
