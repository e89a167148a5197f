"""The hub's cache on disk: where a repository's snapshot lies, and how a file is put into it. Never the network.

The layout is the documented one of huggingface_hub: `models--OWNER--NAME/` with `refs/BRANCH` (a commit),
`blobs/ETAG` and `snapshots/COMMIT/PATH`, links to the blobs. The ETag is the sha256 of a file that git-lfs stores, and
git's own id of any other.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from music3_cli.checkpoint.released import REPOSITORY, released_table

COMMIT = re.compile(r"[0-9a-f]{40}")


def folder() -> Path:
    """The cache folder that huggingface_hub would use now."""
    from huggingface_hub import constants

    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if value := os.environ.get(name):
            return Path(os.path.expandvars(value)).expanduser()
    return Path(constants.HF_HUB_CACHE)


def repository_folder(repository: str) -> Path:
    return folder() / f"models--{repository.replace('/', '--')}"


def snapshot_folder(repository: str, commit: str) -> Path:
    return repository_folder(repository) / "snapshots" / commit


def find_snapshot(repository: str, revision: str) -> Path | None:
    """The snapshot folder of a revision (a commit, or a branch or tag that was fetched by name), or None. Without a
    revision: the pinned one of the released repository, else the one that `main` named when it was last fetched.
    """
    commits = [revision] if revision else []
    if not revision and repository == REPOSITORY:
        commits.append(released_table().revision)
    if ".." not in Path(revision).parts:
        reference = repository_folder(repository) / "refs" / (revision or "main")
        with contextlib.suppress(OSError, UnicodeDecodeError):
            commits.append(reference.read_text(encoding="utf-8").strip())
    for commit in commits:
        if COMMIT.fullmatch(commit) and snapshot_folder(repository, commit).is_dir():
            return snapshot_folder(repository, commit)
    return None


def snapshot_revision(root: Path) -> str | None:
    """The commit that a folder is the snapshot of, if it is one."""
    return root.name if root.parent.name == "snapshots" and COMMIT.fullmatch(root.name) else None


def put_file(repository: str, commit: str, path: str, content: Path, etag: str) -> None:
    """Move a whole file into the cache: the blob by rename, then the snapshot's link to it. Where the file system has
    no links the file itself goes into the snapshot, as huggingface_hub does it.
    """
    root = repository_folder(repository)
    blob, pointer = root / "blobs" / etag, snapshot_folder(repository, commit) / path
    blob.parent.mkdir(parents=True, exist_ok=True)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    content.replace(blob)
    link = pointer.with_name(f".{pointer.name}.{os.getpid()}.link")
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(blob, pointer.parent))
        link.replace(pointer)
    except OSError:
        link.unlink(missing_ok=True)
        blob.replace(pointer)


def remember_reference(repository: str, revision: str, commit: str) -> None:
    """Note which commit a branch or tag named."""
    if COMMIT.fullmatch(revision):
        return
    file = repository_folder(repository) / "refs" / revision
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(commit, encoding="utf-8")
