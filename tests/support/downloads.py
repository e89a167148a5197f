"""The download program as a user runs it, against a hub on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from music3_cli.checkpoint.inventory import open_checkpoint
from music3_cli.checkpoint.record import remembered_place
from music3_cli.checkpoint.verify import DEFAULT, verify
from music3_cli.checkpoint.workers import finish
from music3_cli.errors import Music3Error
from tests.conftest import ROOT, Ran
from tests.support.hub_server import COMMIT, REPOSITORY, Hub
from tests.support.programs import running

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

    def start(
        self, *args: object, prepare: Callable[[], object] | None = None, **more: str
    ) -> AbstractContextManager[subprocess.Popen[str]]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", PROGRAM, *args]
        return running(command, **pipes, env={**self.environment, **more}, preexec_fn=prepare)

    def run(self, *args: object, prepare: Callable[[], object] | None = None, **more: str) -> Ran:
        with self.start(*args, prepare=prepare, **more) as process:
            out, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        return Ran(process.returncode, out, err)

    def download(self, *args: object, **more: str) -> Ran:
        return self.run("download", "--repo", REPOSITORY, *args, **more)


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
