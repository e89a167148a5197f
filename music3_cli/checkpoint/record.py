"""The completion record: what a whole checkpoint folder holds, written last, and where the last one lies.

A folder gets its record when every file is in place and its digest is right. While a download is at work the folder
holds `PARTIAL_FOLDER`, which makes every command refuse it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from music3_cli import __version__
from music3_cli.checkpoint.findings import Fault, Finding
from music3_cli.checkpoint.released import REPOSITORY, FileEntry, FileTable, released_table

RECORD_FILE = ".music3-checkpoint.json"
PARTIAL_FOLDER = ".music3-partial"
RECORD_VERSION = 1

ORIGINS = {"download": "the download", "convert": "the conversion", "demo": "the making"}
"""What a record may come from, as people say it."""

_DEFAULT_PLACE = "checkpoint.json"


@dataclass(frozen=True)
class Record:
    """A folder's files as they were when it was finished.

    Attributes:
        origin: one of `ORIGINS`.
        finished: when, ISO 8601.
    """

    table: FileTable
    origin: str
    finished: str


def read_record(root: Path) -> Record | None:
    """The folder's record, or None where there is none.

    The digests of the pinned revision are always those of the package, whatever the record says.

    Raises:
        Fault: it is there and cannot be read.
    """
    file = root / RECORD_FILE
    try:
        content = json.loads(file.read_bytes())
        files = {path: FileEntry(path, _size(entry["bytes"]), str(entry["sha256"])) for path, entry in _items(content)}
        table = FileTable(str(content["repository"]), str(content["revision"]), files)
        if (table.repository, table.revision) == (REPOSITORY, released_table().revision):
            table = released_table()
        if content["origin"] not in ORIGINS:
            raise ValueError
        return Record(table, content["origin"], str(content["finished"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Fault(
            Finding("record", file, "the completion record cannot be read", hint="Delete it, then verify or download.")
        ) from None


def _items(content: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    items = list(content["files"].items())
    if any(".." in Path(path).parts or Path(path).is_absolute() for path, _ in items):
        raise ValueError
    return items


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value


def write_record(root: Path, table: FileTable, origin: str) -> None:
    """Write the record beside and rename it into place."""
    content = {
        "record_version": RECORD_VERSION,
        "repository": table.repository,
        "revision": table.revision,
        "origin": origin,
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "music3": __version__,
        "files": {
            entry.path: {"bytes": entry.bytes, "sha256": entry.sha256}
            for entry in sorted(table.files.values(), key=lambda entry: entry.path)
        },
    }
    _write_whole(root / RECORD_FILE, content)


def remember_place(folder: Path, cache: Path) -> None:
    """Make `folder` the checkpoint that is used when none is named."""
    cache.mkdir(parents=True, exist_ok=True)
    _write_whole(cache / _DEFAULT_PLACE, {"path": str(folder.absolute())})


def remembered_place(cache: Path) -> Path | None:
    """Where the last finished download lies, or None."""
    try:
        return Path(json.loads((cache / _DEFAULT_PLACE).read_bytes())["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_whole(file: Path, content: object) -> None:
    partial = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            stream.write(json.dumps(content, indent=1) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
