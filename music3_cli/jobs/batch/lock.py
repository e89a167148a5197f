"""Who may write into an output folder: one batch, or the shards of one plan. The kernel lets go when a process dies."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from music3_cli.errors import FolderInUseError, OutputError
from music3_cli.jobs.batch.plan import Shard

LOCK = ".music3.lock"
_PROBE_SECONDS = 2.0
"""Shards that start together look at the whole folder's lock for a moment each."""


@contextmanager
def folder_lock(folder: Path, shard: Shard) -> Iterator[None]:
    """Hold a folder that exists, for the whole batch or for one shard beside the others.

    Raises:
        FolderInUseError: somebody else holds it, with process, machine and time.
    """
    with ExitStack() as held:
        if shard.is_whole:
            _hold(held, folder / LOCK)
            for path in sorted(folder.glob(".music3.*-of-*.lock")):
                _probe(path)
        else:
            _hold(held, folder / f".music3.{shard.label}.lock")
            _probe(folder / LOCK, _PROBE_SECONDS)
            # Shards of another count share songs with this one.
            for path in sorted(folder.glob(".music3.*-of-*.lock")):
                if not path.name.endswith(f"-of-{shard.count}.lock"):
                    _probe(path, _PROBE_SECONDS)
        yield


def _probe(path: Path, seconds: float = 0.0) -> None:
    """Whether nobody holds it."""
    with ExitStack() as probe:
        _hold(probe, path, seconds, write=False)


def _hold(held: ExitStack, path: Path, seconds: float = 0.0, write: bool = True) -> None:
    lock, note = FileLock(path), path.with_suffix(".holder")
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise FolderInUseError(
            f"{path.parent}: another run holds this folder{_holder(note)}",
            hint="Wait for it, end it, or choose another -o. Nothing needs to be cleaned up after a killed run.",
        ) from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be locked ({error.strerror or error})") from None
    held.callback(lock.release)
    if write:
        # The lock's own file is emptied by whoever tries it.
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        content = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
        with suppress(OSError):  # it only tells others who holds the lock
            note.write_text(content, encoding="utf-8")
            held.callback(note.unlink, missing_ok=True)


def _holder(note: Path) -> str:
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
        return f" (process {content['pid']} on {content['host']}, since {content['since']})"
    except (OSError, ValueError, LookupError, TypeError):
        return ""
