"""From `--checkpoint` to a folder: a path, `demo`, or `REPO[@REV]` in the hub's cache. Never the network."""

from __future__ import annotations

import os
import re
from pathlib import Path

from music3_cli.checkpoint.demo import demo_checkpoint
from music3_cli.checkpoint.inventory import Checkpoint, open_checkpoint
from music3_cli.errors import CheckpointError, Music3Error

REPOSITORY = "MiniMaxAI/MiniMax-Music3"
ENVIRONMENT = "MUSIC3_CHECKPOINT"

_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")

HOW_TO_GET_IT = (
    f"Fetch it once (28.5 GB) with `hf download {REPOSITORY} --include 'language_model/*' 'rvq_depth_decoder/*' "
    "'condition_encoder/*' 'transformer/*' 'vocoder/*' 'scheduler/*' 'tokenizer/*' modular_model_index.json LICENSE`, "
    f"then name its folder with --checkpoint or {ENVIRONMENT}. To try music3 without it: --checkpoint demo."
)


def find_checkpoint(wanted: str | None) -> Checkpoint:
    """Resolve and open. Without `wanted`: the environment's, else the released repository in the hub's cache.

    Raises:
        CheckpointError: nothing there, with the way to get it; or what `open_checkpoint` found.
    """
    wanted = wanted or os.environ.get(ENVIRONMENT) or None
    if wanted is None:
        snapshot = _cached_snapshot(REPOSITORY, None)
        if snapshot is None:
            raise CheckpointError("no checkpoint: none was named and none is in the hub's cache", hint=HOW_TO_GET_IT)
        return open_checkpoint(snapshot, REPOSITORY)
    if wanted == "demo":
        return open_checkpoint(demo_checkpoint(_is_whole), "demo")
    folder = Path(wanted).expanduser()
    if not folder.exists() and _REPO.fullmatch(wanted):
        repository, _, revision = wanted.partition("@")
        snapshot = _cached_snapshot(repository, revision or None)
        if snapshot is None:
            raise CheckpointError(f"checkpoint {wanted}: neither a folder nor in the hub's cache", hint=HOW_TO_GET_IT)
        return open_checkpoint(snapshot, wanted)
    if not folder.exists():
        raise CheckpointError(f"checkpoint {wanted}: no such folder", hint=HOW_TO_GET_IT)
    return open_checkpoint(folder, wanted)


def _is_whole(folder: Path) -> bool:
    try:
        open_checkpoint(folder)
    except Music3Error:
        return False
    return True


def _cached_snapshot(repository: str, revision: str | None) -> Path | None:
    """The newest known snapshot folder of a repository in the hub's cache; no request is made."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError):
        return None
