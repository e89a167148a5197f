"""What is asked of a model hub, through huggingface_hub: the list of a revision's files, and a file's bytes.

The only module of music3 that uses the network, and only `fetch.py` calls it. Files come over plain HTTP, which every
hub and mirror speaks and which can go on at any byte after a break.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, cast

from music3_cli import __version__
from music3_cli.checkpoint.layout import CLASSES
from music3_cli.checkpoint.workers import Work
from music3_cli.errors import CheckpointError, Interrupted, Music3Error, OutputError, UsageError

ROOT_FILES = ("LICENSE", "config.json", "modular_model_index.json")
_PLAIN = re.compile(r"\w[\w.-]*\.(json|safetensors|jinja|txt)")
_CHUNK_BYTES = 2**20
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


@dataclass(frozen=True)
class RemoteFile:
    """A file as the hub lists it.

    Attributes:
        sha256: where the hub knows it (git-lfs files), else empty.
        blob: git's id: sha1 of `blob <size>`, a zero byte and the content; empty where it is not known.
    """

    path: str
    bytes: int
    sha256: str = ""
    blob: str = ""


@dataclass(frozen=True)
class Listing:
    """The modular folders' files of one commit."""

    repository: str
    commit: str
    files: tuple[RemoteFile, ...]


class Refused(Exception):
    """The server gave another body than was asked for: too long, or not from where it should go on."""


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, or the public one."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def list_files(repository: str, revision: str) -> Listing:
    """One request: the commit that `revision` names and its modular files. One attempt, as `get_file`.

    Raises:
        CheckpointError: none of the modular folders is there.
        Exception: whatever went wrong between here and the hub.
    """
    hub = _library()
    api = hub.HfApi(endpoint=endpoint(), library_name="music3", library_version=__version__)
    info = api.model_info(repository, revision=revision, files_metadata=True, timeout=30)
    files = []
    for sibling in info.siblings or []:
        lfs: Any = sibling.lfs
        if is_modular(sibling.rfilename):
            files.append(
                RemoteFile(
                    sibling.rfilename,
                    int(sibling.size or 0),
                    str(lfs.sha256) if lfs else "",
                    str(sibling.blob_id or ""),
                )
            )
    if not info.sha or not files:
        raise CheckpointError(
            f"{repository}@{revision}: none of the modular folders ({', '.join(CLASSES)}) is in it",
            hint="This is not a repository of MiniMax-Music3 in the modular packaging.",
        )
    return Listing(repository, str(info.sha), tuple(files))


def is_modular(path: str) -> bool:
    """Whether a repository's file belongs to the modular packaging: never a pickle, never another folder."""
    folder, _, name = path.rpartition("/")
    return path in ROOT_FILES or (folder in CLASSES and _PLAIN.fullmatch(name) is not None)


def get_file(repository: str, commit: str, file: RemoteFile, target: Path, work: Work) -> None:
    """One attempt at a file: go on behind what `target` holds already, until it is whole.

    Raises:
        Refused: the body is longer than the file; `target` is emptied.
        Exception: whatever broke the transfer; what has arrived stays in `target`.
    """
    hub = _library()
    from huggingface_hub.file_download import http_get

    url = hub.hf_hub_url(repository, file.path, revision=commit, endpoint=endpoint())
    # Compressed bodies could not be continued in the middle.
    headers = {"user-agent": f"music3/{__version__}", "accept-encoding": "identity"}
    if token := hub.get_token():
        headers["authorization"] = f"Bearer {token}"
    with target.open("ab") as stream:
        body = _Body(stream, file.bytes, work)
        try:
            http_get(url, cast(BinaryIO, body), resume_size=body.tell(), headers=headers, expected_size=file.bytes)
        except Refused:
            body.truncate(0)
            raise
        stream.flush()
        os.fsync(stream.fileno())


class _Body:
    """The file that huggingface_hub writes into: counts what arrives and takes no byte too many."""

    def __init__(self, stream: BinaryIO, expected: int, work: Work) -> None:
        self._stream, self._expected, self._work = stream, expected, work
        self.name = stream.name

    def write(self, block: bytes) -> int:
        if self.tell() + len(block) > self._expected:
            raise Refused(f"more than {self._expected:,} bytes came")
        count = self._stream.write(block)
        self._work.add(count)
        return count

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, place: int, whence: int = 0) -> int:
        return self._stream.seek(place, whence)

    def truncate(self, size: int | None = None) -> int:
        self._stream.flush()
        before = os.fstat(self._stream.fileno()).st_size
        size = self._stream.tell() if size is None else size
        self._stream.truncate(size)
        self._stream.seek(size)
        self._work.add(size - before)
        return size

    def flush(self) -> None:
        self._stream.flush()


def is_final(error: Exception) -> bool:
    """Whether trying again cannot help: no room, not allowed, not there, stopped."""
    if isinstance(error, Music3Error | Interrupted):
        return True
    if isinstance(error, OSError) and error.errno in _DISK:
        return True
    status = status_code(error)
    if status is not None:
        return 400 <= status < 500 and status not in (408, 416, 429)
    return type(error).__name__ in ("OfflineModeIsEnabled", "LocalTokenNotFoundError")


def status_code(error: Exception) -> int | None:
    """The HTTP status behind an error, if there is one."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def explain(error: Exception, what: str) -> Music3Error:
    """A library's error as ours: exit code 7 where the disk refuses, 5 for all else."""
    if isinstance(error, Music3Error):
        return error
    kind, status = type(error).__name__, status_code(error)
    if isinstance(error, OSError) and error.errno in _DISK:
        reason = error.strerror or str(error)
        return OutputError(
            f"{what}: cannot be written ({reason})",
            hint="Make room (or name another place with --to) and start again: what has arrived is kept.",
        )
    if kind == "OfflineModeIsEnabled":
        return CheckpointError(
            f"{what}: HF_HUB_OFFLINE is set, and a download needs the network", hint="Unset it for this command."
        )
    if kind == "HFValidationError":
        return UsageError(f"{what}: no name of a repository; OWNER/NAME was expected")
    if kind in ("RepositoryNotFoundError", "GatedRepoError", "DisabledRepoError") or status in (401, 403):
        return CheckpointError(
            f"{what}: not there, or not open to you ({endpoint()})",
            hint="Check the name. If it is private or gated, accept its terms in a browser and set HF_TOKEN.",
        )
    if kind == "RevisionNotFoundError":
        return CheckpointError(f"{what}: no such revision on {endpoint()}", hint="Name a commit, branch or tag.")
    if status == 404 or "EntryNotFound" in kind:
        return CheckpointError(
            f"{what}: not found on {endpoint()}",
            hint="If HF_ENDPOINT names a mirror, it may not hold everything: try without it.",
        )
    if isinstance(error, Refused):
        return CheckpointError(
            f"{what}: the server's answer does not fit: {error}", hint="If HF_ENDPOINT names a mirror, try without it."
        )
    text = (str(error).strip().splitlines() or [""])[0]
    return CheckpointError(
        f"{what}: could not be fetched from {endpoint()} ({f'HTTP {status}' if status else f'{kind}: {text[:160]}'})",
        hint="Check the connection and start the same command again: what has arrived is kept.",
    )


def _library() -> ModuleType:
    """huggingface_hub, quiet: no bars of its own, and no extra requests about who is calling."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import disable_progress_bars, logging

    # Through its own function: the library sets its level when it first logs, after anything that we set.
    logging.set_verbosity(logging.ERROR)
    disable_progress_bars()
    # What has come of a chunk is lost with a break, and counts only when the chunk is whole.
    constants.DOWNLOAD_CHUNK_SIZE = _CHUNK_BYTES
    return huggingface_hub
