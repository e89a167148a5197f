"""`music3 inspect checkpoint`: what a checkpoint holds, from its headers alone."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from music3_cli.cli import console, options

if TYPE_CHECKING:
    from rich.text import Text

    from music3_cli.checkpoint.inventory import Survey
    from music3_cli.checkpoint.locate import Place

Row = dict[str, Any]


def inspect_checkpoint(
    path: Annotated[
        str | None,
        typer.Argument(
            help="Folder, demo, or REPO[@REV] in the hub's cache. [default: as in render]", show_default=False
        ),
    ] = None,
    tensors: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="List tensors too: 'vocoder/*' or '*.bias'; '*' for all.")
    ] = None,
    as_json: options.JsonDocument = False,
) -> None:
    """List a checkpoint's components from its headers; reads no weights.

    Shows packaging, revision, when it was verified, and the memory that it needs. Lists the native packaging too, and
    damaged folders as far as they can be read (exit code 5, with everything that is wrong).
    """
    console.configure(as_json=as_json)
    from music3_cli.checkpoint import checks
    from music3_cli.checkpoint.findings import faults
    from music3_cli.checkpoint.inventory import survey
    from music3_cli.checkpoint.locate import find_place
    from music3_cli.errors import raise_all

    place = find_place(path)
    seen = survey(place.root)
    if not seen.is_checkpoint and checks.native_marks(place.root):
        content = _native(place, tensors)
    elif not seen.is_checkpoint:
        raise_all(faults(seen.findings))
        return
    else:
        content = _modular(place, seen, tensors)
    if as_json:
        console.document(content)
    else:
        _show(content)
    if seen.is_checkpoint:
        console.configure()  # the findings are in the document already
        raise_all(faults(seen.findings))


def _modular(place: Place, seen: Survey, pattern: str | None) -> dict[str, Any]:
    from music3_cli.checkpoint.architecture import Architecture
    from music3_cli.checkpoint.hub_cache import snapshot_revision
    from music3_cli.checkpoint.inventory import open_checkpoint
    from music3_cli.checkpoint.layout import CLASSES
    from music3_cli.checkpoint.memory import needs
    from music3_cli.checkpoint.stock import checkpoint_files

    files = {path: (place.root / path).stat().st_size for path in checkpoint_files(place.root)}
    rows = []
    for name in (*CLASSES, "."):
        own = [size for path, size in files.items() if Path(path).parent.as_posix() == name]
        part = seen.components.get(name)
        kind = part.kind if part else CLASSES[name][1] if own and name in CLASSES else ""
        dtypes = sorted({entry.dtype for _, entry in part.tensors.values()}) if part else []
        rows.append(
            {
                "component": name,
                "class": kind,
                "tensors": len(part.tensors) if part else 0,
                "dtype": ", ".join(dtypes),
                "parameters": part.parameters if part else 0,
                "bytes": sum(own),
                "files": len(own),
            }
        )
    record = seen.record
    content: dict[str, Any] = {
        "name": place.name,
        "path": str(place.root),
        "packaging": "modular",
        "demo": seen.is_demo,
        "digest": None if seen.findings else open_checkpoint(place.root).digest,
        "repository": record.table.repository if record else None,
        "revision": record.table.revision if record else snapshot_revision(place.root),
        "verified": {"by": record.origin, "at": record.finished} if record else None,
        "components": rows,
        "totals": _totals(rows),
        "memory": None,
        "findings": [
            {"kind": one.kind, "file": one.relative_file(place.root), "found": one.found, "expected": one.expected}
            for one in seen.findings
        ],
    }
    if not seen.findings:
        configs = {name: part.config for name, part in seen.components.items()}
        memory = needs(seen.components, Architecture.from_configs(configs))
        content["memory"] = {
            "talker_bytes": memory.talker,
            "acoustic_bytes": memory.acoustic,
            "resident_bytes": memory.resident,
            "swapped_bytes": memory.swapped,
            "song_bytes": memory.song,
            "work_bytes": memory.work,
        }
    if pattern is not None:
        content["tensors"] = [
            _tensor_row(name, tensor, header.path.name, entry.dtype, entry.shape, entry.stop - entry.start)
            for name, part in seen.components.items()
            for tensor, (header, entry) in sorted(part.tensors.items())
            if _matches(pattern, name, tensor)
        ]
    return content


def _native(place: Place, pattern: str | None) -> dict[str, Any]:
    from music3_cli.checkpoint.native import find_native, is_depth_tensor

    files = find_native(place.root)
    rows: list[Row] = []
    listed = []
    for component, is_depth in (("language_model", False), ("rvq_depth_decoder", True)):
        own = [
            (header, name, entry)
            for header in files.shards
            for name, entry in header.tensors.items()
            if is_depth_tensor(name) == is_depth
        ]
        rows.append(
            {
                "component": component,
                "class": "in qwen_7B/qwen_7B",
                "tensors": len(own),
                "dtype": ", ".join(sorted({entry.dtype for _, _, entry in own})),
                "parameters": sum(entry.parameters for _, _, entry in own),
                "bytes": sum(entry.stop - entry.start for _, _, entry in own),
                "files": len({header.path for header, _, _ in own}),
            }
        )
        listed += [
            _tensor_row(component, name, header.path.name, entry.dtype, entry.shape, entry.stop - entry.start)
            for header, name, entry in sorted(own, key=lambda item: item[1])
            if pattern is not None and _matches(pattern, component, name)
        ]
    totals = _totals(rows)
    for name, size in files.pickles.items():
        rows.append({"component": name, "class": "pickle, not opened", "bytes": size, "files": 1})
        totals["bytes"] += size
    totals["files"] = len(files.shards) + len(files.pickles)
    return {
        "name": place.name,
        "path": str(place.root),
        "packaging": "native",
        "components": rows,
        "totals": totals,
        "convert": f"music3 convert {place.root} DEST",
        **({"tensors": listed} if pattern is not None else {}),
    }


def _matches(pattern: str, component: str, tensor: str) -> bool:
    return fnmatchcase(tensor, pattern) or fnmatchcase(f"{component}/{tensor}", pattern)


def _tensor_row(component: str, name: str, file: str, dtype: str, shape: tuple[int, ...], size: int) -> Row:
    from music3_cli.checkpoint.findings import printable

    return {
        "component": component,
        "tensor": printable(name),
        "dtype": dtype,
        "shape": list(shape),
        "bytes": size,
        "file": file,
    }


def _totals(rows: list[Row]) -> dict[str, int]:
    return {key: sum(row[key] for row in rows) for key in ("tensors", "parameters", "bytes", "files")}


def _show(content: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    title = content["path"] if content["name"] == content["path"] else f"{content['name']}  {content['path']}"
    console.data(title + ("  (demo: random weights)" if content.get("demo") else ""))
    columns = ("component", "class", "tensors", "dtype", "parameters", "bytes", "files")
    table = Table(*columns, box=box.SIMPLE)
    for row in content["components"]:
        table.add_row(*(_cell(row.get(column, "")) for column in columns))
    table.add_section()
    table.add_row("total", "", *(_cell(content["totals"].get(column, "")) for column in columns[2:]))
    console.show(table)
    if "tensors" in content:
        names = ("component", "tensor", "dtype", "shape", "bytes", "file")
        listed = Table(*names, box=box.SIMPLE)
        for row in content["tensors"]:
            listed.add_row(*(_cell(row[name]) for name in names))
        console.show(listed)
        console.data(f"{len(content['tensors'])} tensors match")
    for line in _facts(content):
        console.data(line)


def _facts(content: dict[str, Any]) -> list[str]:
    from music3_cli.checkpoint.record import ORIGINS

    if content["packaging"] == "native":
        return [
            "packaging: native; music3 renders from the modular packaging, which holds the same weights",
            f"convert it: {content['convert']}",
        ]
    verified = content["verified"]
    lines = ["packaging: modular"]
    if verified:
        lines.append(f"revision: {content['repository']} at {content['revision']}")
        lines.append(f"verified: every file had the right sha256 at {ORIGINS[verified['by']]}, {verified['at']}")
    else:
        revision = content["revision"] or "unknown, there is no completion record"
        lines += [f"revision: {revision}", "verified: never here; see `music3 verify`"]
    if memory := content["memory"]:
        gib = {name.removesuffix("_bytes"): _memory(size) for name, size in memory.items()}
        lines.append(
            f"memory of the weights on a device: {gib['resident']} resident (talker {gib['talker']} in bf16, acoustic "
            f"stage {gib['acoustic']} in fp32), {gib['swapped']} with one stage at a time"
        )
        lines.append(f"on top of that: up to {gib['song']} a song in the talker, {gib['work']} for the acoustic stage")
    return lines


def _memory(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _cell(value: object) -> Text:
    from rich.text import Text

    return Text(_plain(value))


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
