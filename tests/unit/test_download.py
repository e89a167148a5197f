"""`music3 download` against a hub on loopback: whole, found again, and without a request where none is needed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from music3_cli.checkpoint.locate import find_checkpoint
from tests.conftest import ROOT
from tests.support.damage import linked_copy
from tests.support.downloads import Client, assert_whole
from tests.support.hub_server import COMMIT, REPOSITORY, UNWANTED


def test_whole_into_the_cache_and_found_by_itself(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = client.download()
    assert ran.code == 0
    assert ran.out.strip() == str(client.snapshot)
    for said in (
        "24 files, 46.6 MB",
        "MiniMax-Music3 COMMUNITY LICENSE",
        f"/blob/{COMMIT}/LICENSE",
        "free on the disk",
    ):
        assert said in ran.err
    assert_whole(client, client.snapshot)
    assert all((client.snapshot / path).is_symlink() for path in client.hub.files)
    listed, asked = client.hub.requests[0], client.hub.requests[1:]
    assert listed.path == f"/api/models/{REPOSITORY}/revision/main"
    assert sorted(client.hub.fetched) == client.hub.files and len(client.hub.files) == 24
    assert all(request.file or request.path.startswith("/storage/") for request in asked)
    assert not any(unwanted in request.path for request in client.hub.requests for unwanted in UNWANTED)
    # Every way to name it leads there, without a request.
    client.hub.requests.clear()
    monkeypatch.setenv("HF_HUB_CACHE", str(client.snapshot.parents[2]))
    monkeypatch.setenv("MUSIC3_CACHE", str(client.folder / "cache"))
    for name in (None, REPOSITORY, f"{REPOSITORY}@main", f"{REPOSITORY}@{COMMIT}"):
        assert find_checkpoint(name).root == client.snapshot
    assert not client.hub.requests


def test_a_second_start_asks_for_nothing(client: Client, tmp_path: Path) -> None:
    options = ["--to", tmp_path / "folder"]
    assert client.download(*options).code == 0
    client.hub.requests.clear()
    again = client.download("--revision", COMMIT, *options)
    assert again.code == 0 and "nothing to fetch" in again.err
    assert not client.hub.requests
    # A branch may have moved: one question, no file.
    assert client.download(*options).code == 0
    assert [request.path for request in client.hub.requests] == [f"/api/models/{REPOSITORY}/revision/main"]


def test_huggingface_hub_finds_the_snapshot(client: Client) -> None:
    assert client.download().code == 0
    code = f"import huggingface_hub as h; print(h.snapshot_download({REPOSITORY!r}, local_files_only=True))"
    ran = subprocess.run([sys.executable, "-c", code], env=client.environment, capture_output=True, text=True)
    assert ran.stdout.strip() == str(client.snapshot), ran.stderr


def test_dry_run_fetches_nothing(client: Client, tmp_path: Path) -> None:
    ran = client.download("--dry-run", "--to", tmp_path / "folder")
    assert ran.code == 0
    assert not client.hub.fetched and not (tmp_path / "folder").exists()
    assert all(path in ran.out for path in client.hub.files) and "to fetch" in ran.out


def test_the_pinned_revision_needs_no_listing(client: Client) -> None:
    ran = client.run("download", "--dry-run")
    assert ran.code in (0, 7)  # 7: less than 28.5 GB free here
    assert "24 files, 28.5 GB" in ran.out and "bd348f9c49ea3c1b39f33ace3436f8fad435f24e" in ran.out
    assert not client.hub.requests


@pytest.mark.skipif(shutil.disk_usage(tempfile.gettempdir()).free < 29e9, reason="needs room for the released files")
def test_the_library_s_own_talk_is_not_shown(client: Client, tmp_path: Path) -> None:
    """Without a listing first, the library's downloader is the first of its modules that logs."""
    ran = client.run("download", "--to", tmp_path / "folder", HF_ENDPOINT="http://127.0.0.1:9")
    assert ran.code == 5 and "could not be fetched from http://127.0.0.1:9" in ran.err
    assert "Trying to resume" not in ran.err and "Max retries" not in ran.err


def test_other_ways_to_be_wrong(client: Client, tmp_path: Path) -> None:
    for args, code, said in (
        (["--revision", "nowhere"], 5, "no such revision"),
        (["--repo", "someone/else"], 5, "not there, or not open to you"),
        (["--repo", "a/b/c"], 2, "OWNER/NAME was expected"),
        (["--to", ROOT / "pyproject.toml"], 7, "is a file"),
        (["--to", "/proc/music3"], 7, "are left to fetch"),
    ):
        ran = client.download(*args)
        assert ran.code == code and said in ran.err, ran.err
    offline = client.download(HF_HUB_OFFLINE="1")
    assert offline.code == 5 and "HF_HUB_OFFLINE" in offline.err


def test_a_folder_of_another_revision_is_not_mixed(client: Client, demo_root: Path, tmp_path: Path) -> None:
    folder = linked_copy(demo_root, tmp_path / "folder")
    ran = client.download("--to", folder)
    assert ran.code == 7 and "holds demo@4 already" in ran.err
    assert client.run("verify", folder, "-q").code == 0


def test_a_gone_default_place_is_told(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    assert client.download("--to", folder).code == 0
    shutil.rmtree(folder)
    ran = client.run("verify", "--quick")
    assert ran.code == 5 and f"the last download lay in {folder}, which is gone" in ran.err
    assert "music3 download" in ran.err


def test_json_lines_and_the_record(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    records = client.download("--json", "--to", folder).records
    assert [record["event"] for record in records][:2] == ["plan", "work_started"]
    assert records[0]["total_bytes"] == sum((client.hub.folder / path).stat().st_size for path in client.hub.files)
    assert records[-1] == {"event": "download_finished", "path": str(folder), "fetched": True}
    record = json.loads((folder / ".music3-checkpoint.json").read_bytes())
    assert (record["repository"], record["revision"], record["origin"]) == (REPOSITORY, COMMIT, "download")
    assert sorted(record["files"]) == client.hub.files
    for path, entry in record["files"].items():
        content = (folder / path).read_bytes()
        assert entry == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert not (folder / ".music3-partial").exists()
