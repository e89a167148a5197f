"""A batch survives: kills, signals, lost workers, a second run on its folder."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.jobs.batch.plan import Choices, make_batch_plan
from music3_cli.jobs.engine import EngineSpec
from music3_cli.jobs.executors.processes import PipeChannel
from music3_cli.jobs.executors.worker import serve
from music3_cli.jobs.machine import RunsOn
from music3_cli.jobs.manifest_songs import read_manifest_songs
from tests.conftest import ROOT, Music3
from tests.support.batch_runs import (
    FLAGS,
    contents,
    is_alive,
    kill_batch,
    record,
    start,
    statuses,
    wait_for,
)


def test_kills_reruns_and_the_same_bytes(manifest: Path, plain: dict[str, str]) -> None:
    """The short form of benchmarks/kill_batch.py."""
    command = [sys.executable, "-m", "music3_cli", "batch", "m.yaml", *FLAGS]
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    expected = {**plain, ".music3.lock": kill_batch.file_sha256(ROOT / "tests" / "__init__.py")}
    tally = kill_batch.run_round(command, Path("out"), expected, 3, random.Random(5))
    assert tally.kills >= 1


def test_a_second_run_is_refused_and_a_killed_one_leaves_no_lock(
    music3: Music3, manifest: Path, plain: dict[str, str]
) -> None:
    """Its workers, which would have gone on for long, end with it."""
    with start("m.yaml", *FLAGS[:2], "--steps", "1000", "-o", "out", "--devices", "cpu,cpu") as first:
        workers = [wait_for(first, "worker_ready")["pid"] for _ in range(2)]
        wait_for(first, "acoustic_progress")
        os.killpg(first.pid, signal.SIGSTOP)
        second = music3("batch", manifest, *FLAGS, "-o", "out")
        assert second.code == 8 and f"process {first.pid} on " in second.err and "since 20" in second.err
        assert music3("batch", manifest, *FLAGS, "-o", "out", "--shard", "0/2").code == 8
        assert list(Path("out").glob(".music3-*.wav"))
        first.kill()
        os.killpg(first.pid, signal.SIGCONT)
    deadline = time.monotonic() + 20
    while any(is_alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(worker) for worker in workers)
    assert music3("batch", manifest, *FLAGS, "-o", "out").code == 0
    assert contents(Path("out")) == plain


@pytest.mark.parametrize("mode", ["finish", "drop"])
def test_the_first_signal_is_graceful(music3: Music3, manifest: Path, mode: str) -> None:
    flags = ("--checkpoint", "demo", "--steps", "60", "--on-interrupt", mode, "-o", "out")
    with start("m.yaml", *flags) as process:
        song = wait_for(process, "acoustic_started")["song"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["exit_code"], last["rendered"]) == ("run_finished", 130, int(mode == "finish"))
    assert statuses()[song] == ("rendered" if mode == "finish" else "not_started")
    assert list(statuses().values()).count("not_started") == 4 - last["rendered"]
    assert not list(Path("out").glob(".music3-*")) and not record()["finished"]
    assert json.loads(out.splitlines()[-2]) == {"event": "page_written", "path": "out/index.html"}
    assert Path("out/index.html").read_text().count('"status":"finished"') == last["rendered"]


def test_a_terminal_that_goes_is_a_graceful_signal_and_nohup_ignores_it(manifest: Path) -> None:
    """It comes several times, from kernel and shell, and reaches the workers, which leave it to the batch."""
    for nohup, steps in ((False, 400), (True, 60)):  # a run must not be over before it is told
        flags = ("--checkpoint", "demo", "--steps", steps, "-o", f"out-{nohup}", "--devices", "cpu,cpu")
        with start("m.yaml", *flags, ignore=(signal.SIGHUP,) if nohup else ()) as process:
            wait_for(process, "acoustic_started")
            for _ in range(3):
                os.killpg(process.pid, signal.SIGHUP)
                time.sleep(0.1)
            out, err = process.communicate(timeout=120)
        assert process.returncode == (0 if nohup else 130), err
        assert "worker_lost" not in out and "Traceback" not in err
        found = list(statuses(f"out-{nohup}").values())
        assert found.count("rendered") == 4 if nohup else 1 <= found.count("rendered") < 4
        assert not list(Path(f"out-{nohup}").glob(".music3-*"))


@pytest.mark.parametrize("when", ["before it begins", "ready", "idle", "at work"])
def test_a_worker_whose_batch_is_gone_ends_without_a_word(manifest: Path, demo_root: Path, when: str) -> None:
    """Whatever it was about to say, said to nobody, or waits for."""
    songs = read_manifest_songs(manifest, {"steps": 2}, False)
    plan = make_batch_plan(songs, open_checkpoint(demo_root), lambda: "fp32", lambda: "full", "out", Choices())
    ours, theirs = multiprocessing.Pipe()
    spec = EngineSpec.for_songs(plan.to_render, plan.checkpoint, RunsOn("cpu"))
    ended: list[BaseException | None] = []

    def work() -> None:
        try:
            ended.append(serve(spec, PipeChannel(theirs)))
        except BaseException as error:
            ended.append(error)

    worker = threading.Thread(target=work)
    if when != "before it begins":
        worker.start()
        while ours.recv()[0] != ("idle" if when == "at work" else when):
            pass
        if when == "at work":
            ours.send(plan.to_render[0])
        if when != "idle":
            assert ours.poll(60)  # its next word stays unread
    ours.close()
    if when == "before it begins":
        worker.start()
    worker.join(60)
    assert ended == [None]


def test_the_second_signal_ends_at_once(manifest: Path) -> None:
    with start("m.yaml", "--checkpoint", "demo", "--steps", "1000", "-o", "out") as process:
        wait_for(process, "acoustic_started")
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err
    assert not list(Path("out").glob(".music3-*")) and set(statuses().values()) == {"not_started"}
    assert Path("out/index.html").exists()


def test_a_killed_worker_s_songs_go_to_others(manifest: Path, plain: dict[str, str]) -> None:
    with start("m.yaml", *FLAGS, "-o", "out", "--devices", "cpu,cpu") as process:
        worker = wait_for(process, "worker_ready")
        wait_for(process, "talker_started")
        os.kill(worker["pid"], signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err + out
    events = [json.loads(line) for line in out.splitlines()]
    lost = [event for event in events if event["event"] == "worker_lost"]
    assert [event["message"] for event in lost] == ["killed by SIGKILL"]
    assert contents(Path("out")) == plain


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_ray_with_a_killed_worker(manifest: Path, plain: dict[str, str]) -> None:
    with start("m.yaml", *FLAGS, "-o", "out", "--executor", "ray", "--devices", "cpu,cpu") as process:
        worker = wait_for(process, "worker_ready")
        wait_for(process, "talker_started")
        os.kill(worker["pid"], signal.SIGKILL)
        out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err + out
    assert any(json.loads(line)["event"] == "worker_lost" for line in out.splitlines())
    assert contents(Path("out")) == plain
