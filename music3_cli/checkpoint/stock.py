"""A checkpoint folder's files: which ones count, and reading all of them to the end, several at once."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from pathlib import Path

from music3_cli.checkpoint.digests import Examined, examine_weights, file_digest
from music3_cli.checkpoint.findings import Finding
from music3_cli.checkpoint.headers import Header
from music3_cli.checkpoint.layout import CLASSES, NATIVE_MARKS
from music3_cli.checkpoint.released import FileEntry, FileTable
from music3_cli.checkpoint.workers import Work, run_jobs
from music3_cli.events import Event

_NOT_OURS = ("README.md", *NATIVE_MARKS)
"""What may lie in the root of a clone of the repository without being part of the modular packaging."""


def checkpoint_files(root: Path) -> list[str]:
    """Every file that counts as the checkpoint's: those in its root and in its components' folders, hidden ones and
    other packagings left out. Paths with forward slashes, sorted.
    """
    found = [file for file in root.iterdir() if not file.is_dir() and file.name not in _NOT_OURS]
    for folder in CLASSES:
        found += [file for file in (root / folder).rglob("*") if not file.is_dir()]
    paths = (file.relative_to(root) for file in found)
    return sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))


def read_files(root: Path, headers: Sequence[Header], work: str) -> Generator[Event, None, dict[str, Examined]]:
    """Read every file to its end, the largest first, several at once.

    Args:
        headers: of the weight files whose values are to be looked at too.
        work: what the events call it.

    Yields:
        progress.

    Returns:
        path -> what was read, in path order. What is no plain file is left out.
    """
    by_path = {header.path: header for header in headers}
    sizes = {path: (root / path).stat().st_size for path in checkpoint_files(root) if (root / path).is_file()}
    paths = sorted(sizes, key=lambda path: -sizes[path])
    jobs = [partial(_examine, root / path, by_path.get(root / path)) for path in paths]
    results = yield from run_jobs(work, jobs, sum(sizes.values()))
    return dict(sorted(zip(paths, results, strict=True)))


def table_of(examined: Mapping[str, Examined], repository: str, revision: str) -> FileTable:
    """What was read as a table of files."""
    files = {path: FileEntry(path, file.bytes, file.sha256) for path, file in examined.items()}
    return FileTable(repository, revision, files)


def _examine(file: Path, header: Header | None, work: Work) -> Examined:
    try:
        return file_digest(file, work) if header is None else examine_weights(header, work)
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        hint = "Check its permissions; an input/output error means a failing disk."
        return Examined(file, findings=[Finding("unreadable", file, what, hint=hint)])
