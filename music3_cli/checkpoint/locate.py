"""From `--checkpoint` to a folder: a path, `demo`, or `REPO[@REV]` in the hub's cache. Never the network."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from music3_cli.checkpoint import hub_cache
from music3_cli.checkpoint.demo import cache_folder, demo_checkpoint
from music3_cli.checkpoint.inventory import Checkpoint, open_checkpoint
from music3_cli.checkpoint.record import remembered_place
from music3_cli.checkpoint.released import REPOSITORY
from music3_cli.errors import CheckpointError, Music3Error, system_errors_as

ENVIRONMENT = "MUSIC3_CHECKPOINT"

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")

HOW_TO_GET_IT = (
    "Fetch it once (28.5 GB) with `music3 download`; it is found by itself from then on. Or name a folder that holds "
    f"it with --checkpoint or {ENVIRONMENT}. To try music3 without it: --checkpoint demo."
)


@dataclass(frozen=True)
class Place:
    """A checkpoint's folder and what to call it."""

    root: Path
    name: str


@system_errors_as(CheckpointError)
def find_place(wanted: str | None) -> Place:
    """Resolve without opening: a path, `demo`, `REPO[@REV]` in the hub's cache; without `wanted` the environment's,
    else where the last `music3 download` put it, else the released repository in the hub's cache.

    Raises:
        CheckpointError: nothing there, with the way to get it.
    """
    wanted = wanted or os.environ.get(ENVIRONMENT) or None
    if wanted is None:
        return _default_place()
    if wanted == "demo":
        return Place(demo_checkpoint(_is_whole), "demo")
    folder = Path(wanted).expanduser()
    if not folder.exists() and _REPO.fullmatch(wanted):
        repository, _, revision = wanted.partition("@")
        snapshot = hub_cache.find_snapshot(repository, revision)
        if snapshot is None:
            raise CheckpointError(
                f"checkpoint {wanted}: neither a folder nor in the hub's cache ({hub_cache.folder()})",
                hint=f"Fetch it with `music3 download --repo {repository}"
                + (f" --revision {revision}`." if revision else "`.")
                + " To try music3 without it: --checkpoint demo.",
            )
        return Place(snapshot, wanted)
    if not folder.exists():
        raise CheckpointError(f"checkpoint {wanted}: no such folder", hint=HOW_TO_GET_IT)
    return Place(folder, wanted)


def find_checkpoint(wanted: str | None) -> Checkpoint:
    """Resolve and open.

    Raises:
        CheckpointError: nothing there, with the way to get it; or what `open_checkpoint` found.
    """
    place = find_place(wanted)
    return open_checkpoint(place.root, place.name)


def _default_place() -> Place:
    remembered = remembered_place(cache_folder())
    if remembered is not None and remembered.is_dir():
        return Place(remembered, str(remembered))
    snapshot = hub_cache.find_snapshot(REPOSITORY, "")
    if snapshot is not None:
        return Place(snapshot, REPOSITORY)
    gone = f"; the last download lay in {remembered}, which is gone" if remembered is not None else ""
    raise CheckpointError(f"no checkpoint: none was named and none has been downloaded{gone}", hint=HOW_TO_GET_IT)


def _is_whole(folder: Path) -> bool:
    try:
        open_checkpoint(folder)
    except Music3Error:
        return False
    return True
