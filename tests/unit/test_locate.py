"""From `--checkpoint` to a folder, without the network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Music3

REVISION = "bd348f9c49ea3c1b39f33ace3436f8fad435f24e"


@pytest.fixture
def hub(demo_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with one repository, as huggingface_hub lays it: blobs, and snapshots whose files are links."""
    repository = Path("hub/models--MiniMaxAI--MiniMax-Music3").absolute()
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(REVISION)
    (repository / "blobs").mkdir()
    for number, path in enumerate(sorted(path for path in demo_root.rglob("*") if path.is_file())):
        blob = repository / "blobs" / f"{number:064x}"
        blob.symlink_to(path)
        link = repository / "snapshots" / REVISION / path.relative_to(demo_root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    monkeypatch.setenv("HF_HUB_CACHE", str(repository.parent))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(repository.parent))
    monkeypatch.setattr("socket.socket.connect", _no_network)
    return repository


def _no_network(*_: object) -> None:
    raise AssertionError("a command other than download used the network")


@pytest.mark.parametrize(
    "arguments",
    [(), ("MiniMaxAI/MiniMax-Music3",), ("MiniMaxAI/MiniMax-Music3@main",), (f"MiniMaxAI/MiniMax-Music3@{REVISION}",)],
)
def test_a_snapshot_in_the_hub_s_cache(music3: Music3, hub: Path, arguments: tuple[str, ...]) -> None:
    ran = music3("inspect", "checkpoint", *arguments)
    assert ran.code == 0, ran.err
    assert REVISION in ran.out


def test_another_revision_is_not_there(music3: Music3, hub: Path) -> None:
    ran = music3("inspect", "checkpoint", "MiniMaxAI/MiniMax-Music3@v2")
    assert ran.code == 5 and "neither a folder nor in the hub's cache" in " ".join(ran.err.split())


def test_the_environment_names_a_folder(music3: Music3, demo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSIC3_CHECKPOINT", str(demo_root))
    assert music3("inspect", "checkpoint").code == 0
    monkeypatch.setenv("MUSIC3_CHECKPOINT", "demo")
    assert music3("inspect", "checkpoint").code == 0
