"""`music3 download` against a hub on loopback: whole, resumed, without a request, and through every fault."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.checkpoint.locate import find_checkpoint
from music3_cli.checkpoint.record import remembered_place
from music3_cli.checkpoint.verify import DEFAULT, verify
from music3_cli.checkpoint.workers import finish
from music3_cli.errors import Music3Error
from tests.conftest import ROOT, Ran
from tests.support.damage import linked_copy
from tests.support.hub_server import COMMIT, REPOSITORY, TOKEN, UNWANTED, Fault, Hub, serve

T = TypeVar("T")

SHARD = "language_model/model-00001-of-00004.safetensors"
OTHER = "rvq_depth_decoder/diffusion_pytorch_model.safetensors"
SMALL = "vocoder/config.json"

# The program with its pauses between tries cut short.
PROGRAM = """
import time
from music3_cli.checkpoint.workers import Work
pause, wait = time.sleep, Work.sleep
time.sleep = lambda seconds: pause(min(seconds, 0.01))
Work.sleep = lambda self, seconds: wait(self, min(seconds, 0.01))
from music3_cli.cli.main import main
main()
"""


@dataclass
class Client:
    """Runs the program in a process of its own, with its own cache, against a hub."""

    folder: Path
    hub: Hub

    @property
    def environment(self) -> dict[str, str]:
        hidden = ("HF_", "HUGGINGFACE_", "MUSIC3_")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        return {
            **inherited,
            "HF_ENDPOINT": self.hub.url,
            "HF_HOME": str(self.folder / "hf"),
            "MUSIC3_CACHE": str(self.folder / "cache"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }

    @property
    def snapshot(self) -> Path:
        return self.folder / "hf" / "hub" / f"models--{REPOSITORY.replace('/', '--')}" / "snapshots" / COMMIT

    def start(self, *args: object, prepare: Callable[[], object] | None = None, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, args)],
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,
        )

    def run(self, *args: object, prepare: Callable[[], object] | None = None, **more: str) -> Ran:
        process = self.start(*args, prepare=prepare, **more)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        return Ran(process.returncode, out, err)

    def download(self, *args: object, **more: str) -> Ran:
        return self.run("download", "--repo", REPOSITORY, *args, **more)


@pytest.fixture
def hub(demo_root: Path) -> Iterator[Hub]:
    with serve(demo_root) as served:
        yield served


@pytest.fixture
def client(hub: Hub, tmp_path: Path) -> Client:
    return Client(tmp_path / "client", hub)


def assert_whole(client: Client, folder: Path) -> None:
    """The folder is right to the last bit, for `verify` and against what was served."""
    report = finish(verify(folder, DEFAULT))
    assert not report.findings and report.against.startswith("the record of the download")
    for path in client.hub.files:
        assert (folder / path).read_bytes() == (client.hub.folder / path).read_bytes()


def assert_refused(client: Client, folder: Path) -> None:
    """No command takes what is there for a checkpoint, and none finds it by itself."""
    with pytest.raises(Music3Error) as refused:
        open_checkpoint(folder)
    assert refused.value.exit_code == 5
    assert remembered_place(client.folder / "cache") is None


def wait_for(what: Callable[[], T]) -> T:
    """Until `what` gives something, at most half a minute."""
    for _ in range(3000):
        if result := what():
            return result
        time.sleep(0.01)
    raise AssertionError("it never came")


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


@pytest.mark.parametrize("seed", range(3))
def test_cut_at_a_random_byte_goes_on_there(seed: int, client: Client, tmp_path: Path) -> None:
    place = random.Random(seed).randrange(2**21, (client.hub.folder / SHARD).stat().st_size)
    client.hub.faults[SHARD] = Fault("cut", place)
    assert client.download("--to", tmp_path / "folder").code == 0
    assert_whole(client, tmp_path / "folder")
    storage = [request.range for request in client.hub.requests if request.path == f"/storage/{SHARD}"]
    assert storage[0] == ""
    assert place - 2**20 <= int(storage[1].removeprefix("bytes=").rstrip("-")) <= place


@pytest.mark.parametrize(
    "faults",
    [
        {SHARD: Fault("status", 500, 2), SMALL: Fault("status", 503, 3), "api": Fault("status", 500, 2)},
        {SHARD: Fault("status", 429, 2), "api": Fault("status", 429, 1)},
        {SHARD: Fault("corrupt", 12_345), SMALL: Fault("corrupt", 7)},
        {SHARD: Fault("short", 1000), SMALL: Fault("long", 10), OTHER: Fault("long", 5)},
    ],
    ids=["500", "429", "corrupt once", "wrong length once"],
)
def test_what_passes_is_survived(faults: dict[str, Fault], client: Client, tmp_path: Path) -> None:
    client.hub.faults.update(faults)
    ran = client.download("--to", tmp_path / "folder")
    assert ran.code == 0, ran.err
    assert_whole(client, tmp_path / "folder")


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({SHARD: Fault("status", 500, 99)}, "HTTP 500"),
        ({SHARD: Fault("status", 403, 99)}, "HF_TOKEN"),
        ({"api": Fault("status", 500, 99)}, "HTTP 500"),
        ({SMALL: Fault("missing", times=99)}, f"{SMALL} of {REPOSITORY}@0123456789ab: not found"),
        ({SHARD: Fault("corrupt", 12_345, 99)}, f"{SHARD} of {REPOSITORY}@0123456789ab: came twice with other content"),
        ({SMALL: Fault("corrupt", 7, 99)}, "git id"),
        ({SHARD: Fault("short", 1000, 99)}, SHARD),
        ({SMALL: Fault("long", 10, 99)}, f"more than {208} bytes came"),
        ({SHARD: Fault("gone", 3_000_000)}, "could not be fetched from http:"),
    ],
    ids=["500", "403", "listing", "404", "corrupt", "corrupt small", "short", "long", "server gone"],
)
def test_what_stays_is_a_clear_error_and_nothing_half_counts(
    faults: dict[str, Fault], said: str, client: Client, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    client.hub.faults.update(faults)
    ran = client.download("--to", folder)
    assert ran.code == 5
    assert said in ran.err and "error:" in ran.err and len(ran.err.splitlines()) < 10
    assert_refused(client, folder)
    if "status" in {fault.kind for fault in faults.values()}:
        return
    # When the fault is gone, the same command ends well, and what was whole is not fetched again.
    client.hub.faults.clear()
    client.hub.gone = False
    whole = {path for path in client.hub.files if (folder / path).is_file()}
    client.hub.requests.clear()
    assert client.download("--to", folder).code == 0
    assert_whole(client, folder)
    assert not whole & set(client.hub.fetched)


def test_killed_half_way_and_resumed(client: Client, tmp_path: Path) -> None:
    folder, reached = tmp_path / "folder", 15_000_000
    client.hub.faults[SHARD] = Fault("stall", reached)
    process = client.start("download", "--repo", REPOSITORY, "--to", folder)
    assert client.hub.stalled.wait(30)
    (beginning,) = wait_for(lambda: list((folder / ".music3-partial").glob("language_model--model-00001*")))
    wait_for(lambda: beginning.stat().st_size > 10_000_000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert_refused(client, folder)
    song = ROOT / "examples" / "short-and-bare.txt"
    for command in (["verify", folder], ["inspect", "checkpoint", folder], ["render", song, "--checkpoint", folder]):
        ran = client.run(*command)
        assert ran.code == 5 and "has not finished" in ran.out + ran.err
    client.hub.faults.clear()
    client.hub.requests.clear()
    assert client.download("--to", folder).code == 0
    assert_whole(client, folder)
    ranges = [request.range for request in client.hub.requests if request.path == f"/storage/{SHARD}"]
    assert len(ranges) == 1 and 0 < int(ranges[0].removeprefix("bytes=").rstrip("-")) <= reached


def test_interrupted_ends_with_130(client: Client, tmp_path: Path) -> None:
    client.hub.faults[SHARD] = Fault("stall", 1000)
    process = client.start("download", "--repo", REPOSITORY, "--to", tmp_path / "folder", HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert client.hub.stalled.wait(30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    assert_refused(client, tmp_path / "folder")


def test_disk_full(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "folder"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    ran = client.run("download", "--repo", REPOSITORY, "--to", folder, prepare=little_room)
    assert ran.code == 7
    assert "cannot be written" in ran.err and "what has arrived is kept" in ran.err
    assert_refused(client, folder)
    assert client.download("--to", folder).code == 0
    assert_whole(client, folder)


def test_too_little_room_is_told_before_the_start(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from music3_cli.checkpoint.fetch import FetchPlan, check_room
    from music3_cli.checkpoint.hub import Listing, RemoteFile
    from music3_cli.errors import OutputError

    listing = Listing(REPOSITORY, COMMIT, (RemoteFile("LICENSE", 1000),))
    with pytest.raises(OutputError, match="900 bytes are left to fetch, 600 are free on this disk .300 missing."):
        check_room(FetchPlan(listing, tmp_path, False, "main", present=100, free=600))


def test_a_private_repository_needs_its_token(client: Client, tmp_path: Path) -> None:
    client.hub.private = True
    refused = client.download("--to", tmp_path / "folder")
    assert refused.code == 5 and "set HF_TOKEN" in refused.err
    assert client.download("--to", tmp_path / "folder", HF_TOKEN=TOKEN).code == 0
    assert_whole(client, tmp_path / "folder")


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


def test_damage_is_repaired_with_check(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    assert client.download("--to", folder).code == 0
    content = bytearray((folder / SHARD).read_bytes())
    content[1_000_000] ^= 1
    (folder / SHARD).write_bytes(content)
    (folder / SMALL).unlink()
    client.hub.requests.clear()
    assert client.download("--to", folder, "--check").code == 0
    assert_whole(client, folder)
    assert sorted(client.hub.fetched) == [SHARD, SMALL]


def test_beginnings_of_another_download_are_not_trusted(client: Client, tmp_path: Path) -> None:
    """A beginning with wrong bytes in it: found at the end, and fetched from the start."""
    folder = tmp_path / "folder"
    client.hub.faults[SHARD] = Fault("gone", 3_000_000)
    assert client.download("--to", folder).code == 5
    (beginning,) = (folder / ".music3-partial").glob("language_model--model-00001*")
    beginning.write_bytes(b"\xff" * 2_000_000)
    client.hub.gone = False
    assert client.download("--to", folder).code == 0
    assert_whole(client, folder)


def test_two_at_once_do_not_mix(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    client.hub.faults[SHARD] = Fault("stall", 1000)
    first = client.start("download", "--repo", REPOSITORY, "--to", folder)
    assert client.hub.stalled.wait(30)
    second = client.download("--to", folder)
    assert second.code == 7 and "another download is at work" in second.err
    first.kill()
    first.communicate()


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
