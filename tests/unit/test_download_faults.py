"""`music3 download` through everything that can go wrong on the way: cuts, kills, full disks, strangers' files."""

from __future__ import annotations

import random
import resource
import signal
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.downloads import OTHER, SHARD, SMALL, Client, assert_refused, assert_whole, wait_for
from tests.support.hub_server import COMMIT, REPOSITORY, TOKEN, Fault


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
    with client.start("download", "--repo", REPOSITORY, "--to", folder):
        assert client.hub.stalled.wait(30)
        (beginning,) = wait_for(lambda: list((folder / ".music3-partial").glob("language_model--model-00001*")))
        wait_for(lambda: beginning.stat().st_size > 10_000_000)
        # The end of the block kills it.
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
    words = ("download", "--repo", REPOSITORY, "--to", tmp_path / "folder")
    with client.start(*words, HF_HUB_DOWNLOAD_TIMEOUT="1") as process:
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
    with client.start("download", "--repo", REPOSITORY, "--to", folder):
        assert client.hub.stalled.wait(30)
        second = client.download("--to", folder)
        assert second.code == 7 and "another download is at work" in second.err
