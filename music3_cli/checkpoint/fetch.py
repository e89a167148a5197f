"""`download`: the modular folders of a repository, whole and right, into a folder or the hub's cache.

Every file arrives under an unfinished name, goes on where it stopped, is compared with its digest and only then gets
its name. While anything is missing the folder is marked unfinished; the completion record comes last.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from music3_cli.checkpoint import hub, hub_cache
from music3_cli.checkpoint.demo import cache_folder
from music3_cli.checkpoint.digests import BLOCK_BYTES
from music3_cli.checkpoint.findings import faults
from music3_cli.checkpoint.hub import Listing, RemoteFile
from music3_cli.checkpoint.inventory import survey
from music3_cli.checkpoint.record import PARTIAL_FOLDER, RECORD_FILE, read_record, remember_place, write_record
from music3_cli.checkpoint.released import FileEntry, FileTable, released_table
from music3_cli.checkpoint.workers import Work, run_jobs
from music3_cli.errors import CheckpointError, Music3Error, OutputError, raise_all, system_errors_as
from music3_cli.events import Event, Warned

T = TypeVar("T")

ATTEMPTS = 5
"""Tries in a row without a single new byte, before a file is given up."""
_LFS_BYTES = 10 * 2**20
"""Larger files are always in git-lfs on the hub."""


@dataclass(frozen=True)
class FetchPlan:
    """What a download will do.

    Attributes:
        listing: the files, with the digests that are known.
        root: where the checkpoint will lie.
        to_cache: whether that is a snapshot of the hub's cache.
        revision: as the user named it.
        done: nothing to do: the folder has its record and passes the quick check.
        present: bytes that are there already, whole files and beginnings.
        free: bytes free on the disk.
    """

    listing: Listing
    root: Path
    to_cache: bool
    revision: str
    done: bool = False
    present: int = 0
    free: int = 0
    there: frozenset[str] = field(default=frozenset())

    @property
    def total(self) -> int:
        return sum(file.bytes for file in self.listing.files)

    @property
    def left(self) -> int:
        return max(0, self.total - self.present)


@system_errors_as(OutputError)
def plan_download(repository: str, revision: str, to: Path | None, again: bool = False) -> FetchPlan:
    """Decide what to fetch. No request where the pinned revision is wanted, or a commit that is whole already.

    Args:
        revision: a commit, branch or tag; nothing for the pinned one (of another repository: `main`).
        to: the folder, or None for the hub's cache.
        again: read files that are there once more, even if the folder's record says that it is whole.

    Raises:
        CheckpointError: no such repository or revision; a listing that is not the published one.
        OutputError: the folder holds something else, cannot be written, or the disk is too small.
    """
    table = released_table()
    if not revision:
        revision = table.revision if repository == table.repository else "main"
    known = known_listing(repository, revision, to)
    listing = known or _persist(
        lambda: hub.list_files(repository, revision), f"{repository}@{revision}", lambda: 0, time.sleep
    )
    root = to if to is not None else hub_cache.snapshot_folder(repository, listing.commit)
    if root.exists() and not root.is_dir():
        raise OutputError(f"{root}: is a file; a folder was expected")
    record = None
    with contextlib.suppress(Music3Error):  # a record that cannot be read is none
        record = read_record(root)
    if record is not None:
        if (record.table.repository, record.table.revision) != (repository, listing.commit):
            raise OutputError(
                f"{root}: holds {record.table.label} already; {repository}@{listing.commit[:12]} was to go there",
                hint="Name another folder with --to, or delete this one first.",
            )
        if not again and not survey(root).findings:
            return FetchPlan(listing, root, to is None, revision, done=True)
    present, there = 0, set()
    for file in listing.files:
        if (root / file.path).is_file() and (root / file.path).stat().st_size == file.bytes:
            present += file.bytes
            there.add(file.path)
        elif _partial(root, file).is_file():
            present += min(file.bytes, _partial(root, file).stat().st_size)
    return FetchPlan(listing, root, to is None, revision, False, present, _free_bytes(root), frozenset(there))


def known_listing(repository: str, revision: str, to: Path | None) -> Listing | None:
    """The list of files where it is known without asking: the pinned revision, or what a record says."""
    table: FileTable | None = None
    if (repository, revision) == (released_table().repository, released_table().revision):
        table = released_table()
    elif hub_cache.COMMIT.fullmatch(revision):
        root = to if to is not None else hub_cache.snapshot_folder(repository, revision)
        try:
            record = read_record(root)
        except Music3Error:
            record = None
        if record is not None and (record.table.repository, record.table.revision) == (repository, revision):
            table = record.table
    if table is None:
        return None
    files = tuple(RemoteFile(entry.path, entry.bytes, entry.sha256) for entry in table.files.values())
    return Listing(repository, revision, files)


def check_room(plan: FetchPlan) -> None:
    """Raise `OutputError` where the disk has no room for what is left."""
    if plan.left > plan.free:
        raise OutputError(
            f"{plan.root}: {plan.left:,} bytes are left to fetch, {plan.free:,} are free on this disk "
            f"({plan.left - plan.free:,} missing)",
            hint="Make room, or name another place with --to (or HF_HUB_CACHE for the cache).",
        )


def download(plan: FetchPlan) -> Generator[Event, None, Path]:
    """Fetch what is missing, check all of it, and finish the folder.

    Yields:
        progress.

    Returns:
        the checkpoint's folder.

    Raises:
        CheckpointError: the network, the server, or content that is not what was announced. OutputError: the disk.
    """
    check_room(plan)
    root, listing = plan.root, plan.listing
    partial_folder = root / PARTIAL_FOLDER
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _only_one(root):
            # First the mark, then the files: at no time does a half folder look whole.
            partial_folder.mkdir(exist_ok=True)
            (root / RECORD_FILE).unlink(missing_ok=True)
            jobs = [partial(_ensure, plan, file) for file in sorted(listing.files, key=lambda file: -file.bytes)]
            entries = yield from run_jobs("download", jobs, plan.total)
            _finish(plan, partial_folder, entries)
    except OSError as error:
        raise hub.explain(error, str(root)) from None
    try:
        remember_place(root, cache_folder())
    except OSError as error:
        yield Warned(
            f"{cache_folder()}: cannot be written ({error.strerror or error}); name this folder with --checkpoint"
        )
    return root


def _finish(plan: FetchPlan, partial_folder: Path, entries: Sequence[FileEntry]) -> None:
    """Take the mark away, look at the whole, and write the record last."""
    root, listing = plan.root, plan.listing
    _tidy(partial_folder)
    raise_all(faults(survey(root).findings))
    if plan.to_cache:
        hub_cache.remember_reference(listing.repository, plan.revision, listing.commit)
    table = FileTable(listing.repository, listing.commit, {entry.path: entry for entry in entries})
    write_record(root, table, "download")


@contextlib.contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Two downloads into one folder would write into the same files. The lock goes with the process that holds it."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(root / ".music3-lock", timeout=0):
            yield
    except Timeout:
        raise OutputError(f"{root}: another download is at work on this folder", hint="Wait for it.") from None


def _ensure(plan: FetchPlan, file: RemoteFile, work: Work) -> FileEntry:
    """Have one file in place, whole and right."""
    target, unfinished = plan.root / file.path, _partial(plan.root, file)
    name = f"{file.path} of {plan.listing.repository}@{plan.listing.commit[:12]}"
    try:
        if target.is_file() and target.stat().st_size == file.bytes:
            digest = _digest(target, file, work)
            if digest.right:
                return FileEntry(file.path, file.bytes, digest.sha256)
            work.add(-file.bytes)
        if unfinished.is_file():
            if unfinished.stat().st_size > file.bytes:
                unfinished.unlink()
            else:
                work.add(unfinished.stat().st_size)
        for chance in ("first", "last"):
            _transfer(plan, file, unfinished, work)
            digest = _digest(unfinished, file, None)
            if digest.right:
                break
            # Nothing of it can be trusted, not even its beginning.
            unfinished.unlink()
            work.add(-file.bytes)
            if chance == "last":
                raise CheckpointError(
                    f"{name}: came twice with other content than announced: {digest.found}; expected {digest.expected}",
                    hint="The server or something on the way changes it. Try again later or from another endpoint.",
                )
        _into_place(plan, file, unfinished, digest)
    except OSError as error:
        raise hub.explain(error, name) from None
    return FileEntry(file.path, file.bytes, digest.sha256)


def _transfer(plan: FetchPlan, file: RemoteFile, unfinished: Path, work: Work) -> None:
    """Bring a file's bytes here: try again after a break, as long as new bytes come."""
    repository, commit = plan.listing.repository, plan.listing.commit
    _persist(
        lambda: hub.get_file(repository, commit, file, unfinished, work),
        f"{file.path} of {repository}@{commit[:12]}",
        lambda: _size(unfinished),
        work.sleep,
    )


def _persist(attempt: Callable[[], T], name: str, reached: Callable[[], int], sleep: Callable[[float], None]) -> T:
    """Try until it works, `ATTEMPTS` times in a row without anything new, with pauses of 1, 2, 4 and 8 s.

    Args:
        reached: how far it has come.

    Raises:
        CheckpointError, OutputError: what stopped it.
    """
    tries, far = 0, reached()
    while True:
        try:
            return attempt()
        except Exception as error:  # by the library's version, three HTTP libraries' errors
            now = reached()
            tries = 1 if now > far else tries + 1
            far = now
            if hub.is_final(error) or tries >= ATTEMPTS:
                raise hub.explain(error, name) from None
        sleep(min(8, 2 ** (tries - 1)))


@dataclass(frozen=True)
class _Digest:
    """A file's digests against those that are known of it.

    Attributes:
        blob: git's id, sha1.
    """

    sha256: str
    blob: str
    right: bool
    found: str
    expected: str


def _digest(path: Path, file: RemoteFile, work: Work | None) -> _Digest:
    """Read a file once for its sha256 and, where the hub knows only that, git's id."""
    sha256 = hashlib.sha256()
    git = hashlib.sha1(f"blob {file.bytes}\0".encode(), usedforsecurity=False) if file.bytes < _LFS_BYTES else None
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(BLOCK_BYTES):
            sha256.update(block)
            if git is not None:
                git.update(block)
            if work is not None:
                work.add(len(block))
    found, blob = sha256.hexdigest(), git.hexdigest() if git is not None else ""
    if file.sha256:
        right, shown = found == file.sha256, (f"sha256 {found[:16]}…", f"{file.sha256[:16]}…")
    elif file.blob and blob:
        right, shown = blob == file.blob, (f"git id {blob[:16]}…", f"{file.blob[:16]}…")
    else:
        # The hub gave no digest; the size has been checked.
        right, shown = True, ("", "")
    return _Digest(found, blob, right, *shown)


def _into_place(plan: FetchPlan, file: RemoteFile, unfinished: Path, digest: _Digest) -> None:
    if not plan.to_cache:
        target = plan.root / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.replace(target)
        return
    in_lfs = file.path.endswith(".safetensors") or file.bytes >= _LFS_BYTES
    etag = digest.sha256 if in_lfs or not digest.blob else digest.blob
    hub_cache.put_file(plan.listing.repository, plan.listing.commit, file.path, unfinished, etag)


def _partial(root: Path, file: RemoteFile) -> Path:
    """Where a file's beginning lies. Its name holds the digest: what is left of another revision is not continued."""
    mark = (file.sha256 or file.blob or str(file.bytes))[:16]
    return root / PARTIAL_FOLDER / f"{file.path.replace('/', '--')}.{mark}"


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _tidy(partial_folder: Path) -> None:
    """Take the mark away: rename first, so that a kill in between leaves nothing that still looks like it."""
    gone = partial_folder.with_name(f"{PARTIAL_FOLDER}-{os.getpid()}-done")
    partial_folder.rename(gone)
    shutil.rmtree(gone)


def _free_bytes(root: Path) -> int:
    place = root.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
