"""The single checks of the quick depth: packaging, configs, index against shards, tensors against configs, sizes.

Each takes a folder and gives or raises findings; `inventory.survey` puts them together. No weights are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from music3_cli.checkpoint.findings import Fault, Finding, collecting, first_few
from music3_cli.checkpoint.headers import Header, parse_json, read_header
from music3_cli.checkpoint.layout import COMPONENTS, NATIVE_MARKS, Component, ComponentConfig
from music3_cli.checkpoint.record import PARTIAL_FOLDER
from music3_cli.checkpoint.released import FileTable
from music3_cli.errors import Music3Error

FLOATING = ("BF16", "F16", "F32")


def native_marks(root: Path) -> list[str]:
    """What of the native packaging lies in the folder."""
    return [mark for mark in NATIVE_MARKS if (root / mark).exists()]


def check_packaging(root: Path) -> None:
    """Raise `Fault` for what is no modular checkpoint at all."""
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "no such folder"
        raise Fault(Finding("packaging", root, what, "a checkpoint folder"))
    missing = [folder for folder in COMPONENTS if not (root / folder).is_dir()]
    if missing and (native := native_marks(root)):
        raise Fault(
            Finding(
                "packaging",
                root,
                f"this is the native packaging ({', '.join(native)})",
                f"the modular packaging with the folders {', '.join(COMPONENTS)}",
                f"Convert it: `music3 convert {root} DEST`. It holds the same weights as the modular folders that "
                "`music3 download` fetches.",
            )
        )
    if len(missing) == len(COMPONENTS) and not (root / PARTIAL_FOLDER).exists():
        raise Fault(Finding("packaging", root, f"none of the folders {', '.join(COMPONENTS)} is here"))


def check_finished(root: Path) -> None:
    """Raise `Fault` for a folder into which a download is running or was broken off."""
    if (root / PARTIAL_FOLDER).exists():
        raise Fault(
            Finding(
                "unfinished",
                root,
                "a download into this folder has not finished",
                hint="Run the same `music3 download` again: it goes on where it stopped.",
            )
        )


def read_object(file: Path) -> dict[str, Any]:
    """A JSON file that holds an object.

    Raises:
        Fault: missing, unreadable, no JSON, or something else.
    """
    kind = "index" if file.name.endswith("index.json") else "config"
    try:
        if file.exists() and not file.is_file():
            raise Fault(Finding("unreadable", file, "not a plain file"))
        data = parse_json(file.read_bytes())
    except FileNotFoundError:
        raise Fault(Finding("missing", file, "missing")) from None
    except OSError as error:
        raise Fault(
            Finding("unreadable", file, f"cannot be read ({error.strerror or error})", hint="Check its permissions.")
        ) from None
    except (ValueError, RecursionError):
        raise Fault(Finding(kind, file, "not valid JSON")) from None
    if not isinstance(data, dict):
        raise Fault(Finding(kind, file, f"holds a {type(data).__name__}", "a JSON object"))
    return data


def read_config(root: Path, component: Component) -> tuple[ComponentConfig, str]:
    """A component's config and the class that it names.

    Raises:
        Fault, ManyErrors: all that is wrong with it.
    """
    folder = root / component.name
    if not folder.is_dir():
        raise Fault(Finding("missing", folder, "component missing"))
    file = folder / "config.json"
    data = read_object(file)
    kind = config_class(data)
    if kind and kind != component.kind:
        check_class(file, kind, component.kind)
    return component.config.from_json(data, file), kind or component.kind


def config_class(data: Mapping[str, Any]) -> str:
    """The class that a config names, or nothing."""
    architectures = data.get("architectures")
    listed = architectures[0] if isinstance(architectures, list) and architectures else ""
    return str(data.get("_class_name") or listed)


def check_class(file: Path, found: str, expected: str) -> None:
    """Raise `Fault` where a config is another component's or another model's."""
    other = [name for name, component in COMPONENTS.items() if component.kind == found]
    if other:
        raise Fault(
            Finding("swapped", file, f"swapped: holds the config of {other[0]} ({found})", f"that of {expected}")
        )
    raise Fault(Finding("config", file, f"its class is {found}", expected))


def read_headers(
    folder: Path, component: Component, configs: Mapping[str, ComponentConfig]
) -> tuple[tuple[Header, ...], list[Finding]]:
    """A component's weight files as far as they can be read, and everything that is wrong with them.

    Args:
        configs: of all components that have one, to tell whose tensors a file holds.
    """
    findings: list[Finding] = []
    listed: dict[str, set[str]] = {component.single_file: set()}
    index = folder / component.index_file
    if index.exists():
        listed = {}
        with collecting(findings):
            listed = read_index(index)
    headers = []
    for file in sorted(listed):
        with collecting(findings):
            headers.append(read_header(folder / file))
    shapes = {name: config.shapes() for name, config in configs.items()}
    swapped = [finding for header in headers if (finding := _swapped(header, component.name, listed, shapes))]
    findings.extend(swapped)
    exchanged = {finding.file for finding in swapped}
    for header in headers:
        names = listed[header.path.name]
        if names and header.path not in exchanged and (wrong := sorted(names ^ set(header.tensors))):
            where = "is listed but not in it" if wrong[0] in names else "is in it but not listed"
            what = f"does not match {index.name}: tensor {wrong[0]} {where} ({len(wrong)} in all)"
            findings.append(Finding("index", header.path, what))
    # Names only make sense once every file could be read; what is missing in a broken file is no second fault.
    if component.name in shapes and len(headers) == len(listed) and headers:
        findings.extend(_tensor_findings(folder, headers, exchanged, shapes[component.name]))
    return tuple(headers), findings


def read_index(index: Path) -> dict[str, set[str]]:
    """Shard -> the tensors that an index lists in it.

    Raises:
        Fault: no map from tensors to shards, or a shard that is not a plain file name in this folder.
    """
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(v, str) for v in weight_map.values()):
        raise Fault(Finding("index", index, "weight_map is missing", "tensor names with their shards"))
    listed: dict[str, set[str]] = {}
    for name, shard in weight_map.items():
        # A shard is a file of this folder: a path could make the loader read anything on the disk.
        if Path(shard).name != shard or "\\" in shard or not shard.endswith(".safetensors"):
            raise Fault(Finding("index", index, f"shard {shard!r} is not a plain file name in this folder"))
        listed.setdefault(shard, set()).add(name)
    return listed


def _swapped(
    header: Header, owner: str, listed: Mapping[str, set[str]], shapes: Mapping[str, Mapping[str, object]]
) -> Finding | None:
    """Whether a file holds the tensors of another shard or of another component."""
    found, file = set(header.tensors), header.path
    for shard, names in listed.items():
        if shard != file.name and found and found == names:
            return Finding(
                "swapped", file, f"swapped: holds the tensors of {shard}", "those that the index lists in it"
            )
    if found.isdisjoint(shapes.get(owner, found)):
        for name, expected in shapes.items():
            if name != owner and found and found <= set(expected):
                return Finding("swapped", file, f"swapped: holds tensors of {name}", f"those of {owner}")
    return None


def _tensor_findings(
    folder: Path, headers: list[Header], exchanged: set[Path], expected: Mapping[str, tuple[int, ...]]
) -> list[Finding]:
    """Names, shapes and dtypes against what the config implies."""
    findings = []
    found = {name: (header, entry) for header in headers for name, entry in header.tensors.items()}

    def some(names: list[str]) -> str:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    whole = not any(header.path in exchanged and not set(header.tensors) <= set(expected) for header in headers)
    if whole and (missing := sorted(set(expected) - set(found))):
        findings.append(Finding("tensor", folder, f"tensors missing: {some(missing)}"))
    if extra := sorted(name for name in set(found) - set(expected) if found[name][0].path not in exchanged):
        findings.append(Finding("tensor", folder, f"tensors that do not belong there: {some(extra)}"))
    wrong = []
    for name in sorted(set(expected) & set(found)):
        header, entry = found[name]
        if entry.shape != expected[name]:
            what = f"tensor {name} has shape {list(entry.shape)}"
            wrong.append(Finding("tensor", header.path, what, f"{list(expected[name])}, as the config implies"))
        elif entry.dtype not in FLOATING:
            what = f"tensor {name} is {entry.dtype}"
            wrong.append(Finding("tensor", header.path, what, f"one of {', '.join(FLOATING)}"))
    return findings + first_few(wrong, "tensors of this file do not fit")


def size_findings(root: Path, table: FileTable) -> list[Finding]:
    """Files that are not there or have another size than in the table."""
    findings = []
    for entry in table.files.values():
        file = root / entry.path
        size = file.stat().st_size if file.is_file() else None
        if finding := size_finding(file, size, entry.bytes):
            findings.append(finding)
    return findings


def size_finding(file: Path, size: int | None, expected: int) -> Finding | None:
    """A file's size (None where there is no file) against the expected one."""
    if size is None:
        return Finding("missing", file, "missing", f"{expected:,} bytes")
    if size == expected:
        return None
    kind = "changed" if _is_whole(file) else "truncated" if size < expected else "longer"
    return Finding(kind, file, f"{kind}: {size:,} bytes", f"{expected:,} bytes")


def _is_whole(file: Path) -> bool:
    """Whether a file of another size is complete in itself, and so another file rather than a part of this one."""
    try:
        if file.suffix == ".json":
            read_object(file)
        elif file.suffix == ".safetensors":
            read_header(file)
        else:
            return False
    except Music3Error:
        return False
    return True
