"""A small manifest, runs of it as a process, and what they leave in their folder."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.support.programs import MUSIC3, environment, running

QUICK = ("--checkpoint", "demo", "--steps", "2", "--max-duration", "0.3")
MANIFEST = """\
songs:
- {id: a, lyrics_text: "[verse]\\nLight on the river\\n[outro]", seed: 1, max_duration: 0.2}
- {id: b, lyrics_text: "[verse]\\nFrost on the rail\\n[outro]", seed: 2, takes: 2, max_duration: 0.4}
- {id: c, lyrics_text: "[verse]\\nSmoke on the hill\\n[outro]", seed: 3, max_duration: 0.3}
"""
FLAGS = ("--checkpoint", "demo", "--steps", "2")
TAKES = ["a", "b-take1", "b-take2", "c"]


def load_script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


kill_batch = load_script("kill_batch")


def contents(folder: Path) -> dict[str, str]:
    found: dict[str, str] = kill_batch.contents(folder)
    return {name: digest for name, digest in found.items() if not name.startswith(".music3.")}


def record(folder: str = "out", name: str = "batch.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(folder, name).read_bytes())
    return content


def statuses(folder: str = "out", name: str = "batch.json") -> dict[str, str]:
    return {song["id"]: song["status"] for song in record(folder, name)["songs"]}


def summary_of(err: str, song: str) -> str:
    """The song's row of the table."""
    return next(line for line in err.splitlines()[::-1] if line.split()[:1] == [song])


def start(*arguments: object, ignore: Sequence[int] = ()) -> AbstractContextManager[subprocess.Popen[str]]:
    """A batch in a session of its own.

    Args:
        ignore: signals, as `nohup` does.
    """

    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        for number in ignore:
            signal.signal(number, signal.SIG_IGN)

    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    command = [*MUSIC3, "batch", *arguments, "--json"]
    return running(command, **options, start_new_session=True, preexec_fn=prepare)


def is_alive(pid: int) -> bool:
    """False for a process that nobody has asked yet how it ended, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        content: dict[str, Any] = json.loads(line)
        if content["event"] == event:
            return content
    raise AssertionError(f"no {event}: {process.communicate()[1]}")
